"""Show the site on this machine and rebuild it when a source is saved."""

import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bookbuild.build import WORK, build
from bookbuild.problems import BookError
from bookbuild.project import Project, load_project

# What a build writes: watching it would rebuild for ever.
WRITTEN = {
    WORK,
    "_freeze",
    ".venv",
    ".git",
    ".quarto",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
}


class Pages(SimpleHTTPRequestHandler):
    """Files of the site, never cached, without a log line for each."""

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_): ...


def serve(project: Project, *, jobs: int, port: int, say: Callable[[str], None]) -> None:
    """Build, serve on the loopback interface, and build again after each save until interrupted."""
    from watchfiles import watch

    _build(project, jobs, say)
    site = project.root / project.output_dir
    with ThreadingHTTPServer(("127.0.0.1", port), partial(Pages, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say(f"http://127.0.0.1:{server.server_port}/ shows {site.name}; Ctrl-C stops")
        ignored = WRITTEN | {project.output_dir, f"{project.output_dir}.before"}
        try:
            for changes in watch(project.root, watch_filter=None, raise_interrupt=True):
                paths = {Path(path).relative_to(project.root) for _, path in changes}
                if wanted := sorted(str(path) for path in paths if not ignored & set(path.parts)):
                    say(f"{', '.join(wanted[:3])} saved")
                    _build(project, jobs, say)
        except KeyboardInterrupt:
            say("stopped")
        finally:
            server.shutdown()


def _build(project: Project, jobs: int, say: Callable[[str], None]) -> None:
    """One build; what is wrong is said, and the last good site stays."""
    try:
        report = build(load_project(project.root), jobs=jobs)
    except (BookError, OSError) as error:  # a file can be gone for a moment while it is saved
        say(str(error))
    else:
        what = f"{len(report.ran)} ran, {len(report.rendered)} of {report.pages} pages rendered"
        say("nothing changed" if report.up_to_date else what)
