"""Do one part of a plan: execute chapters from nothing, and write what came for `book merge`.

    results/_freeze/chapters/masking/…          the freeze that a build would have made
    results/outcomes/chapters/masking.json      that it is complete, what it checked, what failed

An outcome is written last: where there is none, the run did not end. A chapter that drifted or
raised has an outcome too, so that the merge tells of all machines at once.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bookbuild import freeze as freezing
from bookbuild import swap
from bookbuild.build import Listener, Plan
from bookbuild.placing import write_freeze
from bookbuild.problems import BookError, Problem
from bookbuild.run import Failure, Run
from bookbuild.stale import Verdict
from ledger.entries import LEDGER
from ledger.inputs import digests

FORMAT = 1
OUTCOMES = "outcomes"


def run(
    plan: Plan,
    names: Sequence[str],
    to: Path,
    *,
    jobs: int,
    timeout: float,
    listener: Listener,
) -> list[Run | Failure]:
    """Execute the named chapters and write their results below `to`. The project is not changed.

    Raises BookError for a chapter without code, and where a machine could not record its result.
    """
    from bookbuild.execute import execute, kernel_environment  # imports Jupyter: half a second

    paths = {plan.project.chapter(name).path for name in names}
    todo = [verdict for verdict in plan.verdicts if verdict.source.path in paths]
    if plain := [v.source.path for v in todo if v.state == "plain"]:
        raise BookError(
            [Problem(path, 0, "has no code: there is nothing to run") for path in plain]
        )
    for verdict in todo:
        outcome_path(to, verdict.source.path).unlink(missing_ok=True)
    entries = digests(plan.ledger.values())
    reasons = {verdict.source.path: _reason(verdict) for verdict in todo}

    def done(result: Run | Failure) -> None:
        path = result.source.path
        if isinstance(result, Run):
            if not result.record["ledger"].items() <= entries.items():
                raise BookError(Problem(LEDGER, 0, f"was edited while {path} ran; run it again"))
            frozen = freezing.freeze(result, plan.ledger, plan.settings)
            _put(frozen, to / freezing.folder_of(path))
            _write(to, outcome(result, frozen.inputs["seal"]))
        else:
            shutil.rmtree(to / freezing.folder_of(path), ignore_errors=True)
            _write(to, outcome(result, None))
        listener.finished(result, reasons[path])

    listener.executing(todo, jobs)
    return execute(
        plan.project,
        [verdict.source for verdict in todo],
        jobs=jobs,
        timeout=timeout,
        environment=kernel_environment(plan.project.root),
        done=done,
    )


def outcome_path(folder: Path, chapter: str) -> Path:
    return folder / OUTCOMES / f"{chapter.removesuffix('.qmd')}.json"


def outcome(result: Run | Failure, seal: str | None) -> dict[str, Any]:
    """What is known about one execution, without the freeze itself. `seal`: of its inputs.json."""
    record = result.record
    failed = isinstance(result, Failure)
    return {
        "format": FORMAT,
        "chapter": result.source.path,
        "text": result.source.md5,
        "seal": seal,
        "seconds": round(result.seconds, 1),
        "problems": [[p.path, p.line, p.text] for p in result.problems] if failed else [],
        "drifts": [dict(drift) for drift in result.drifts] if failed else [],
        "record": {
            key: record[key] for key in ("libraries", "environment", "checked") if key in record
        },
    }


def _reason(verdict: Verdict) -> str:
    return verdict.reason or "from nothing"


def _put(frozen: freezing.Frozen, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="put-", dir=place.parent) as folder:
        staging = Path(folder) / "freeze"
        write_freeze(frozen, staging)
        swap.put(staging, place)


def _write(to: Path, content: Mapping[str, Any]) -> None:
    path = outcome_path(to, content["chapter"])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps(content, indent=1, ensure_ascii=False)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(path)
