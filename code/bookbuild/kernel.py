"""What runs inside a chapter's kernel beside the chapter: settings before, records after.

Imported by a hidden cell that does not count. Keep it light: it is in every kernel's start.
"""

import json
import os
import platform
import sys
from pathlib import Path

from ledger import session
from ledger.inputs import Recorder, digests, locked_versions

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
    book = session.session() if (Path(root) / "ledger.toml").is_file() else None
    used = {*book.checked, *book.said} if book else set()
    return json.dumps(
        {
            "modules": _recorder.modules(),
            "data": _recorder.data(),
            "ledger": digests(book.ledger[id] for id in sorted(used)) if book else {},
            "libraries": _recorder.libraries(locked_versions(Path(root))),
            "environment": environment(),
            "checked": book.checked if book else {},
            "said": sorted(book.said) if book else [],
            "drifts": [vars(drift) for drift in book.drifts] if book else [],
        }
    )


def _lose_no_output() -> None:
    """Queue what cells show without a limit: ZeroMQ drops what exceeds a thousand messages."""
    import zmq

    thread = _shell().kernel.iopub_socket.io_thread
    thread.schedule(lambda: thread.socket.set(zmq.SNDHWM, 0))


def environment() -> dict:
    """What numbers may depend on besides libraries. No name, path or time."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _cpu_features(),
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "blas": _blas(),
    }


def _cpu_features() -> list[str]:
    """The instruction sets that numerical kernels choose by."""
    wanted = ("sse4_1", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile")
    try:
        flags = set(
            Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
        )
    except OSError:
        return []
    return [flag for flag in wanted if flag in flags]


def _blas() -> list[str]:
    if "threadpoolctl" not in sys.modules and "numpy" not in sys.modules:
        return []
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return sorted(
        f"{pool['internal_api']} {pool.get('version')} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )


def _shell():
    from IPython import get_ipython

    return get_ipython()
