"""A process that has imported the libraries once and tries chapters in children of its own.

`python -m bookbuild.mutate_child MODULE…` imports the modules, then answers each line of JSON on
its standard input with one on its standard output. A child is forked for each, before any
operation has run in the parent: threads of numerical libraries would not survive the fork. Only
the child imports `measured` and `ledger`, from the copy of the project that the request names.
"""

import ast
import contextlib
import ctypes
import importlib
import json
import os
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bookbuild.source import Cell, Prose, Source, parse

DETECTOR = re.compile(r"\b\w+_leak\(")
VERDICT = re.compile(r"\bis (not )?None\b")  # what detectors give where nothing leaks


def serve(modules: list[str]) -> None:
    """Warm up, then answer requests until the input ends."""
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what libraries and cells print is no answer
    os.dup2(nothing, 2)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("IPython.core.interactiveshell")
    for line in sys.stdin:
        answers.write(json.dumps(_apart(json.loads(line))) + "\n")
        answers.flush()


def _apart(request: Mapping[str, Any]) -> dict[str, Any]:
    """Try a chapter in a child; how it ended, also where it never ended by itself."""
    started = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            _die_with_parent()
            limit = int(request["limit"]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                json.dump(try_chapter(request), pipe)
        finally:
            os._exit(0)  # no library's own way out: it would wait for the parent's threads
    os.close(writing)
    text = _read(reading, started + 4 * request["limit"])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    found = {"seconds": time.monotonic() - started, "cpu": used.ru_utime + used.ru_stime}
    if text:
        return {**json.loads(text), **found}
    died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if died in (signal.SIGXCPU, signal.SIGKILL):
        return {"how": "timeout", "message": "took far longer than without the fault", **found}
    return {"how": "error", "message": f"the process died of signal {died}", **found}


def _die_with_parent() -> None:
    """On Linux: whoever asked was killed, and this process would go on computing for nobody."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _read(reading: int, until: float) -> str:
    """All that the child writes; "" if that takes too long."""
    parts = []
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            part = pipe.read(65536)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    return ""


def try_chapter(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run cells of a chapter in this process until something is wrong.

    Args:
        request: `root`, a copy of the project; `chapter`, its path there; `cells`, labels in the
            order to run them; `expected`, ids that must have been checked at the end.

    Returns:
        `how`: "" where nothing was wrong, else "number" (one drifted, or is no longer checked),
        "leak" (a leak detector spoke) or "error"; `cell`, `entry` and `message` say where and
        what; `times`: label -> seconds; `checked`: ids in order.
    """
    root = Path(request["root"])
    path = root / request["chapter"]
    _settle(root, path)
    source = parse(request["chapter"], path.read_text(encoding="utf-8"))
    shell = _shell()
    cells = {cell.label: cell for cell in source.cells}
    times: dict[str, float] = {}
    for label in request["cells"]:
        began = time.monotonic()
        wrong = _run(shell, cells[label])
        times[label] = time.monotonic() - began
        if wrong:
            return {**wrong, "cell": label, "times": times, "checked": _checked()}
    wrong = _run_inlines(shell, source) if len(times) == len(cells) else None
    left = sorted(set(request["expected"]) - set(_checked()))
    if not wrong and left:
        wrong = {"how": "number", "entry": left[0], "message": f"{left[0]} is no longer checked"}
    return {"how": "", "times": times, "checked": _checked(), **(wrong or {})}


def _settle(root: Path, path: Path) -> None:
    """Make this process look to a chapter as its kernel does."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(root / "code"))
    os.chdir(path.parent)
    os.environ |= {
        "PYTHONPATH": str(root / "code"),
        "QUARTO_PROJECT_ROOT": str(root),
        "QUARTO_DOCUMENT_PATH": str(path.parent),
        "QUARTO_DOCUMENT_FILE": path.name,
    }


def _shell():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *args, **kwargs: None
    shell.history_manager.enabled = False
    return shell


def _run(shell, cell: Cell) -> dict[str, Any] | None:
    if cell.options.get("eval") is False:
        return None
    result = shell.run_cell(cell.code, silent=True)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    error = result.error_before_exec or result.error_in_exec
    if error is None or (cell.options.get("error") and not _is_drift(error)):
        return None
    return _judge(error, cell.code)


def _run_inlines(shell, source: Source) -> dict[str, Any] | None:
    for piece in source.pieces:
        if not isinstance(piece, Prose):
            continue
        for inline in piece.inlines:
            try:
                value = shell.ev(inline.expression)
                if hasattr(value, "_repr_markdown_"):
                    value._repr_markdown_()
            except Exception as error:
                return {**_judge(error, inline.expression), "cell": ""}
    return None


def _is_drift(error: BaseException) -> bool:
    return type(error).__name__ == "DriftError"


def _judge(error: BaseException, code: str) -> dict[str, Any]:
    message = str(error).partition("\n")[0]
    if _is_drift(error):
        id = message.partition(" ")[0].rstrip(":")
        return {
            "how": "leak" if id in detected_by_leaks(code) else "number",
            "entry": id,
            "message": message,
        }
    how = "leak" if _raised_in(error).endswith("measured/leaks.py") else "error"
    return {"how": how, "message": f"{type(error).__name__}: {message}"[:300]}


def _raised_in(error: BaseException) -> str:
    """File of the innermost function that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""


def detected_by_leaks(code: str) -> set[str]:
    """Ids whose checked value comes from a leak detector in the same cell, or is its verdict."""
    found, names = set(), set()
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and DETECTOR.search(ast.unparse(node.value)):
            names |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check"):
            continue
        id, *values = node.args
        text = " ".join(map(ast.unparse, values))
        used = {n.id for value in values for n in ast.walk(value) if isinstance(n, ast.Name)}
        if isinstance(id, ast.Constant) and (
            DETECTOR.search(text) or VERDICT.search(text) or used & names
        ):
            found.add(id.value)
    return found


def _checked() -> list[str]:
    module = sys.modules.get("ledger.session")
    session = getattr(module, "_session", None)
    return list(session.checked) if session else []


if __name__ == "__main__":
    serve(sys.argv[1:])
