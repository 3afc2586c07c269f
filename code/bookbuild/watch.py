"""Compute every number with other libraries than the locked ones, and find which of them moved it.

A release that changes a number should be known before somebody takes it into the lock. Each chapter
is executed once in the environment to be watched. Where a number moved, the chapter is executed
again: with the locked libraries on this same machine, which must not move it, and then with one
changed library at a time, taken from the watched environment. Nothing of the book is changed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bookbuild.build import Plan
from bookbuild.problems import BookError, Problem
from bookbuild.run import Failure, Run
from bookbuild.source import Source
from ledger.inputs import library_name

LOCKED = "with the locked libraries"  # the environment that the others are compared with

VERSIONS = """
import json
from importlib import metadata
found = {}
for one in metadata.distributions():  # the first of a name is the one that is imported
    found.setdefault(one.metadata["Name"], one.version)
print(json.dumps(found))
"""
PLACES = """
import json, sys, sysconfig
own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
others = [path for path in sys.path if path and path not in own]
print(json.dumps([path for path in others if not path.endswith((".zip", "lib-dynload"))]))
"""
FILES = """
import json, sys
from importlib import metadata
one = metadata.distribution(sys.argv[1])
inside = [path for path in one.files or () if ".." not in path.parts]
print(json.dumps([[str(path), str(path.locate())] for path in inside]))
"""


def numbers(
    plan: Plan,
    name: str,
    python: str,
    *,
    jobs: int,
    timeout: float,
    locked: str = sys.executable,
    told: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """What the environment of `python` makes of the book's numbers, as a report for `watch_report`.

    Args:
        name: of that environment, for the report.
        locked: interpreter of the environment that has the locked libraries.
        told: hears a line for each execution.
    """
    # Kernels run in their chapters' folders. Links stay: by its place a Python knows its venv.
    python, locked = os.path.abspath(python), os.path.abspath(locked)  # noqa: PTH100
    then, now = versions(locked), versions(python)
    changed = {
        library: (then[library], now[library])
        for library in sorted(used(plan))
        if library in then and library in now and then[library] != now[library]
    }
    sources = [verdict.source for verdict in plan.verdicts if verdict.state != "plain"]
    watched = _execute(plan, sources, name, python, jobs, timeout, told)
    wrong = [result for result in watched if isinstance(result, Failure)]
    trials = _trials(plan, wrong, changed, python, locked, jobs, timeout, told)
    return {
        "name": name,
        "python": python_of(python),
        "changed": {library: list(pair) for library, pair in changed.items()},
        "chapters": len(sources),
        "computed": sum(len(result.record.get("checked", {})) for result in watched),
        "moved": [row for result in wrong for row in _moved(plan, result, changed, trials)],
        "raised": [row for result in wrong for row in _raised(result, changed, trials)],
    }


def used(plan: Plan) -> set[str]:
    """Libraries that any chapter imported when it was executed last."""
    found = set()
    for verdict in plan.verdicts:
        if verdict.frozen is not None:
            found |= set(verdict.frozen.inputs["libraries"])
    return found


def versions(python: str) -> dict[str, str]:
    return {library_name(name): version for name, version in _ask(python, VERSIONS).items()}


def python_of(python: str) -> str:
    return _ask(python, "import json, platform; print(json.dumps(platform.python_version()))")


def _ask(python: str, code: str, *arguments: str) -> Any:
    """What a program says as JSON; isolated from the caller's PYTHONPATH and folder."""
    done = subprocess.run(
        [python, "-I", "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise BookError(Problem(python, 0, f"is no usable Python: {said[0]}"))
    return json.loads(done.stdout)


def _execute(plan, sources, name, python, jobs, timeout, told) -> list[Run | Failure]:
    from bookbuild.execute import execute, kernel_environment  # imports Jupyter: half a second

    def done(result: Run | Failure) -> None:
        moved = len(result.drifts) if isinstance(result, Failure) else 0
        what = "ok" if isinstance(result, Run) else f"{moved} moved"
        if isinstance(result, Failure) and len(result.problems) > moved:
            what = "FAILED"
        told(f"{name}: {result.source.path} {what}, {result.seconds:.0f} s")

    return execute(
        plan.project,
        sources,
        jobs=jobs,
        timeout=timeout,
        environment=kernel_environment(plan.project.root),
        done=done,
        python=python,
    )


# Trials: environment → chapter → the Run or Failure that came. Environments are LOCKED and names of
# libraries.
Trials = Mapping[str, Mapping[str, Run | Failure]]


def _trials(plan, wrong, changed, python, locked, jobs, timeout, told) -> Trials:
    """The chapters in which something is wrong, executed again to find out why."""
    if not wrong:
        return {}
    todo: dict[str, list[Source]] = {LOCKED: [result.source for result in wrong]}
    for result in wrong:
        for library in _suspects(plan, result.source, changed):
            todo.setdefault(library, []).append(result.source)
    found = {}
    with ExitStack() as stack:
        for name, sources in todo.items():
            if name == LOCKED:
                label, interpreter = LOCKED, locked
            else:
                folder = tempfile.TemporaryDirectory(prefix="book-watch-")
                place = Path(stack.enter_context(folder))
                label = f"{name} {changed[name][1]} alone"
                interpreter = with_one_library(place, name, python, locked)
            results = _execute(plan, sources, label, interpreter, jobs, timeout, told)
            found[name] = {result.source.path: result for result in results}
    return found


def _suspects(plan: Plan, source: Source, changed: Iterable[str]) -> list[str]:
    """Changed libraries that the chapter imports; all of them where nobody knows what it does."""
    for verdict in plan.verdicts:
        if verdict.source.path == source.path and verdict.frozen is not None:
            return [name for name in changed if name in verdict.frozen.inputs["libraries"]]
    return list(changed)


def with_one_library(folder: Path, library: str, python: str, locked: str) -> str:
    """An interpreter with the locked libraries, but one of them from the environment of `python`.

    Its files are linked, or copied where they cannot be, in front of the others.
    """
    overlay = folder / "library"
    for name, source in _ask(python, FILES, library):
        place = overlay / name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.hardlink_to(Path(source).resolve())
        except OSError:
            if Path(source).is_file():
                shutil.copy2(source, place)
    return interpreter(folder / "environment", [str(overlay), *places(locked)], locked)


def places(python: str) -> list[str]:
    """Where a Python looks for what is not its own."""
    return _ask(python, PLACES)


def interpreter(folder: Path, libraries: Sequence[str], python: str) -> str:
    """A Python that looks in `libraries`, in this order, and else only in its own library."""
    subprocess.run(
        [python, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "places.pth").write_text("".join(f"{place}\n" for place in libraries))
    return str(folder / "bin" / "python")


def _moved(plan, result: Failure, changed, trials: Trials) -> list[dict[str, Any]]:
    rows = []
    for drift in result.drifts:
        entry = plan.ledger[drift["id"]]
        rows.append(
            {
                "id": entry.id,
                "chapter": result.source.path,
                "line": drift["line"],
                "statement": entry.statement,
                "expected": entry.show(entry.value),
                "got": _shown(entry, drift["got"]),
                "message": drift["message"],
                "cause": cause(
                    changed,
                    {
                        name: _moves(found.get(result.source.path), entry.id)
                        for name, found in trials.items()
                    },
                ),
            }
        )
    return rows


def _shown(entry, value: Any) -> str:
    """A value as the ledger would show it; in full where that hides the difference."""
    try:
        text = entry.show(value)
    except (TypeError, ValueError):
        return str(value)
    return text if text != entry.show(entry.value) else str(value)


def _raised(result: Failure, changed, trials: Trials) -> list[dict[str, Any]]:
    told = {drift["message"] for drift in result.drifts}
    return [
        {
            "chapter": problem.path,
            "line": problem.line,
            "text": problem.text,
            "cause": cause(
                changed,
                {name: _raises(found.get(result.source.path)) for name, found in trials.items()},
            ),
        }
        for problem in result.problems
        if problem.text not in told
    ]


def _moves(result: Run | Failure | None, id: str) -> bool | None:
    """Whether a number moved in a trial; None where the trial cannot tell."""
    if result is None:
        return False  # the chapter does not import that library
    if isinstance(result, Failure) and any(drift["id"] == id for drift in result.drifts):
        return True
    return False if id in result.record.get("checked", {}) else None


def _raises(result: Run | Failure | None) -> bool:
    return isinstance(result, Failure) and len(result.problems) > len(result.drifts)


def cause(changed: Mapping[str, Sequence[str]], trials: Mapping[str, bool | None]) -> str:
    """Why something happened, in words. Trials say True: there too; False: not; None: unknown."""
    if trials.get(LOCKED) is not False:
        return "not these releases: it happens with the locked libraries on this machine too"
    names = {name: f"{name} {was} → {now}" for name, (was, now) in changed.items()}
    alone = [names[name] for name in names if trials.get(name)]
    if alone:
        return " and ".join(alone) + (", each alone" if len(alone) > 1 else ", alone")
    if unknown := [names[name] for name in names if name in trials and trials[name] is None]:
        return f"perhaps {' or '.join(unknown)}, which cannot be tried alone"
    tried = [names[name] for name in names if name in trials]
    if not tried:
        return "nothing that the chapter is known to import: another Python or system library"
    return f"no library alone, only together: {', '.join(tried)}"
