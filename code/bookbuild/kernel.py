"""What runs inside a chapter's kernel beside the chapter: settings before, records after.

Imported by a hidden cell that does not count. Keep it light: it is in every kernel's start.
"""

import json
import sys
from pathlib import Path

from ledger import session
from ledger.inputs import Recorder
from ledger.recording import record

_recorder: Recorder | None = None


def start(root: str, figures: dict) -> None:
    """Begin to record, and draw figures as Quarto's own kernels do.

    Args:
        root: the project's folder.
        figures: `fig-format`, `fig-width` and `fig-height` in inches, `fig-dpi`.
    """
    global _recorder
    _lose_no_output()
    sys.dont_write_bytecode = True  # a source edited twice within a second must not run stale
    _recorder = Recorder(Path(root))
    shell = _shell()
    # Matplotlib itself is imported by the chapters that draw, not here.
    shell.config.InlineBackend.figure_formats = {figures["fig-format"]}
    shell.config.InlineBackend.rc = {
        "figure.figsize": (figures["fig-width"], figures["fig-height"]),
        "figure.dpi": figures["fig-dpi"],
        "savefig.dpi": "figure",
        "svg.hashsalt": "book",
    }
    if (Path(root) / "ledger.toml").is_file():
        session.session().building = True


def finish(root: str) -> str:
    """What the chapter was computed from and what it checked, as JSON."""
    return json.dumps(record(_recorder, Path(root)))


def _lose_no_output() -> None:
    """Queue what cells show without a limit: ZeroMQ drops what exceeds a thousand messages."""
    import zmq

    thread = _shell().kernel.iopub_socket.io_thread
    thread.schedule(lambda: thread.socket.set(zmq.SNDHWM, 0))


def _shell():
    from IPython import get_ipython

    return get_ipython()
