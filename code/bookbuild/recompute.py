"""Compute the book's numbers in another environment, beside the freeze, and keep them.

Nothing of the freeze is used or changed, and a drift stops nothing. What a chapter gave is kept
below `.book` until something that it was computed from changes, so a run that was stopped goes on
where it was.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bookbuild.build import Plan
from bookbuild.problems import Problem
from bookbuild.run import Failure, Run
from bookbuild.source import Source
from ledger.inputs import CODE, LOCK, Inputs, changes, file_digest
from ledger.values import Value


@dataclass(frozen=True)
class Environment:
    """One way to run the book.

    Args:
        variables: replace the usual ones.
        python: the interpreter of the kernels.
        first: code that each kernel runs before its chapter.
        made_from: what makes it what it is, such as the text of its lock; else its place does.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    first: str = ""
    made_from: str = ""


@dataclass(frozen=True)
class Computed:
    """What one chapter gave: the values of its numbers, and what its cells raised."""

    checked: Mapping[str, Value]
    raised: tuple[Problem, ...] = ()


def recompute(
    plan: Plan,
    sources: Sequence[Source],
    environment: Environment,
    folder: Path,
    *,
    jobs: int,
    timeout: float,
    keep_going: bool = False,
    outer: Mapping[str, str] | None = None,
    told: Callable[[Run | Failure], None] = lambda result: None,
) -> dict[str, Computed]:
    """Path of a chapter → what it gave in `environment`.

    Args:
        folder: where results are kept.
        keep_going: go on after a cell that raised. What such a chapter gave is kept too, since it
            raises again; without it a chapter that raised is executed anew next time.
        outer: variables for the sake of speed, beneath all others. Results are kept without regard
            to them.
        told: hears of each chapter that was executed now.
    """
    from bookbuild.execute import execute, kernel_environment  # imports Jupyter: half a second

    root = plan.project.root
    folder = folder / _name_of(environment)
    found = {source.path: _kept(folder, source, root) for source in sources}
    todo = [source for source in sources if found[source.path] is None]

    def done(result: Run | Failure) -> None:
        computed = _computed(result)
        found[result.source.path] = computed
        if "modules" in result.record and (keep_going or not computed.raised):
            _keep(folder, result, computed, root)
        told(result)

    execute(
        plan.project,
        todo,
        jobs=jobs,
        timeout=timeout,
        environment=kernel_environment(root, {**os.environ, **(outer or {})})
        | environment.variables,
        done=done,
        python=environment.python,
        first=environment.first,
        keep_going=keep_going,
    )
    return found


def with_code(plan: Plan) -> list[Source]:
    """The chapters that have something to execute."""
    return [verdict.source for verdict in plan.verdicts if verdict.state != "plain"]


def _computed(result: Run | Failure) -> Computed:
    checked = result.record.get("checked", {})
    if isinstance(result, Run):
        return Computed(checked)
    drifts = {drift["message"] for drift in result.drifts}
    return Computed(checked, tuple(p for p in result.problems if p.text not in drifts))


def _name_of(environment: Environment) -> str:
    made = environment.made_from or environment.python
    parts = [environment.variables, made, environment.first]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"{environment.name.replace(' ', '-')}-{digest[:8]}"


def _keep(folder: Path, result: Run | Failure, computed: Computed, root: Path) -> None:
    record = result.record
    ours = f"{CODE}/measured/"  # the ledger's own code compares values and makes none
    modules = {path: digest for path, digest in record["modules"].items() if path.startswith(ours)}
    kept = {
        "cells": _cells(result.source),
        "modules": modules,
        "data": record["data"],
        "lock": file_digest(root / LOCK),
        "checked": computed.checked,
        "raised": [[problem.path, problem.line, problem.text] for problem in computed.raised],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{Path(result.source.path).stem}.json"
    path.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")


def _kept(folder: Path, source: Source, root: Path) -> Computed | None:
    try:
        text = (folder / f"{Path(source.path).stem}.json").read_text(encoding="utf-8")
        record = json.loads(text)
        raised = tuple(Problem(*problem) for problem in record["raised"])
    except (OSError, ValueError, KeyError):
        return None
    inputs = Inputs(modules=record["modules"], data=record["data"])
    libraries = record.get("lock") == file_digest(root / LOCK)
    if not libraries or record["cells"] != _cells(source) or changes(inputs, root, {}, {}):
        return None
    return Computed(record["checked"], raised)


def _cells(source: Source) -> str:
    return hashlib.sha256("".join(cell.key for cell in source.cells).encode()).hexdigest()
