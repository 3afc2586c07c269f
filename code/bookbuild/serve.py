"""Show the site on this machine and rebuild it when a source is saved."""

import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bookbuild.build import build
from bookbuild.placing import WORK
from bookbuild.problems import BookError
from bookbuild.project import Project, load_project
from bookbuild.warm import Nurseries

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


NAMES = {"127.0.0.1", "localhost"}


class Pages(SimpleHTTPRequestHandler):
    """Files of the site, never cached, without a log line for each.

    Nothing outside the site's folder, be it by dots or by a link; no listing of a folder; and no
    answer to a name that is not this machine's, by which a foreign page could read the preview.
    """

    def send_head(self):
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if name not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "ask for 127.0.0.1 or localhost")
            return None
        try:
            asked = Path(self.translate_path(self.path)).resolve()
            inside = asked.is_relative_to(Path(self.directory).resolve())
        except (ValueError, OSError, RuntimeError):  # a NUL in the path, or links in a circle
            inside = False
        if not inside:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path):
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        super().end_headers()

    def log_message(self, *_): ...


def serve(project: Project, *, jobs: int, port: int, say: Callable[[str], None]) -> None:
    """Build, serve on the loopback interface, and build again after each save until interrupted."""
    from watchfiles import watch

    with Nurseries() as kept:  # an edited cell need not wait for TensorFlow again and again
        _build(project, jobs, say, kept)
        site = project.root / project.output_dir
        pages = partial(Pages, directory=str(site))
        with ThreadingHTTPServer(("127.0.0.1", port), pages) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            say(f"http://127.0.0.1:{server.server_port}/ shows {site.name}; Ctrl-C stops")
            ignored = WRITTEN | {project.output_dir, f"{project.output_dir}.before"}
            try:
                for changes in watch(project.root, watch_filter=None, raise_interrupt=True):
                    paths = {Path(path).relative_to(project.root) for _, path in changes}
                    wanted = sorted(str(path) for path in paths if not ignored & set(path.parts))
                    if wanted:
                        say(f"{', '.join(wanted[:3])} saved")
                        _build(project, jobs, say, kept)
            except KeyboardInterrupt:
                say("stopped")
            finally:
                server.shutdown()


def _build(project: Project, jobs: int, say: Callable[[str], None], kept: Nurseries) -> None:
    """One build; what is wrong is said, and the last good site stays."""
    try:
        report = build(load_project(project.root), jobs=jobs, kept=kept)
    except (BookError, OSError) as error:  # a file can be gone for a moment while it is saved
        say(str(error))
    else:
        what = f"{len(report.ran)} ran, {len(report.rendered)} of {report.pages} pages rendered"
        say("nothing changed" if report.up_to_date else what)
