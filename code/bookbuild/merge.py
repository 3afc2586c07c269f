"""Put the results of several machines together: all of them or, with every reason, none.

Nothing is believed because of where it lies. Each result must be complete, unspoilt by its own
hashes, and made from exactly the texts, modules, data, ledger and lock that this working copy has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookbuild import drifts
from bookbuild import freeze as freezing
from bookbuild.build import ChaptersFailed, Plan, check_bindings, check_outputs
from bookbuild.freeze import Frozen
from bookbuild.placing import put_freezes
from bookbuild.plan_run import FORMAT, OUTCOMES
from bookbuild.problems import BookError, Problem
from bookbuild.run import Failure, Run
from bookbuild.source import Source
from bookbuild.stale import judge
from bookbuild.verify import Comparison, against_freeze
from ledger.inputs import RUNNING, changes, digests, locked_versions

# What an outcome must hold, each with its kind.
SHAPE = {
    "chapter": str,
    "text": str,
    "seal": str | None,
    "problems": list,
    "drifts": list,
    "record": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What one machine says of one chapter."""

    place: str  # of its outcome, for messages
    outcome: Mapping[str, Any]
    frozen: Frozen | None = None

    @property
    def chapter(self) -> str:
        return self.outcome["chapter"]

    @property
    def failed(self) -> bool:
        return self.outcome["seal"] is None


@dataclass
class Merged:
    """Results by chapter path, and what is wrong with the rest."""

    made: dict[str, Frozen] = field(default_factory=dict)
    results: list[Run | Failure] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def merge(plan: Plan, folders: Sequence[Path], *, partial: bool = False) -> dict[str, Frozen]:
    """Put the results below `folders` into `_freeze`; the new freezes by chapter path.

    Raises BookError, and changes nothing, where a result is missing, spoilt, made from something
    else or contradicted by another, and ChaptersFailed where a chapter drifted or raised.

    Args:
        partial: chapters without a result keep the freeze they have, if that still holds.
    """
    kept = {
        v.source.path: v.frozen
        for v in plan.verdicts
        if partial and v.state in ("fresh", "prose") and v.frozen is not None
    }
    made = _collected(plan, folders, RUNNING, kept)
    frozen = {**kept, **made}
    check_bindings(plan, frozen)
    check_outputs(plan, frozen)
    put_freezes(plan.project, made)
    return made


def compare(plan: Plan, folders: Sequence[Path]) -> list[Comparison]:
    """Compare the results below `folders` with the committed freeze. Changes nothing.

    Raises the same as `merge`, and BookError where the committed freeze is stale. Whether another
    Python gives the same is what may be asked here: the machines need not have this one's.
    """
    made = _collected(plan, folders, "", {})
    check_bindings(plan, made)
    check_outputs(plan, made)
    return against_freeze(plan, made)


def _collected(
    plan: Plan, folders: Sequence[Path], python: str, kept: Mapping[str, Frozen]
) -> dict[str, Frozen]:
    found, problems = [], []
    for folder in folders:
        results, wrong = read(folder)
        found += results
        problems += wrong
    merged = together(plan, found, python, kept)
    problems += merged.problems
    drifts.note(plan.project.root, merged.results)
    if any(isinstance(result, Failure) for result in merged.results):
        failed = ChaptersFailed(merged.results, 0)
        failed.problems = tuple(sorted({*failed.problems, *problems}))
        raise failed
    if problems:
        raise BookError(problems)
    return merged.made


def read(folder: Path) -> tuple[list[Result], list[Problem]]:
    """All results in a folder, or in folders below it: artifacts are unpacked either way."""
    found, problems = [], []
    tops = [folder / OUTCOMES, *sorted(folder.glob(f"*/{OUTCOMES}"))]
    tops = [top for top in tops if top.is_dir()]
    if not tops:
        text = f"has no folder {OUTCOMES}: it is none that book run --to wrote"
        problems.append(Problem(str(folder), 0, text))
    for top in tops:
        for path in sorted(top.rglob("*.json")):
            try:
                outcome = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                problems.append(Problem(str(path), 0, "is not readable; run its chapter again"))
                continue
            if not _fits(outcome):
                text = "is not what this build writes; run its chapter again"
                problems.append(Problem(str(path), 0, text))
                continue
            frozen = freezing.read(top.parent / freezing.folder_of(outcome["chapter"]))
            found.append(Result(str(path), outcome, frozen))
    return found, problems


def _fits(outcome: Any) -> bool:
    return (
        isinstance(outcome, dict)
        and outcome.get("format") == FORMAT
        and all(key in outcome and isinstance(outcome[key], kind) for key, kind in SHAPE.items())
        and (outcome["seal"] is None) == bool(outcome["problems"])
        and all(map(_is_problem, outcome["problems"]))
        # No path that leads out of the folder: it is joined to one.
        and ".." not in Path(outcome["chapter"]).parts
    )


def _is_problem(value: Any) -> bool:
    kinds = [type(part) for part in value] if isinstance(value, list) else []
    return kinds == [str, int, str]


def together(
    plan: Plan, found: Sequence[Result], python: str, kept: Mapping[str, Frozen]
) -> Merged:
    """One result for each chapter with code; everything that is not so is a problem."""
    merged = Merged()
    sources = {v.source.path: v.source for v in plan.verdicts if v.state != "plain"}
    first: dict[str, Result] = {}
    for result in found:
        source = sources.get(result.chapter)
        if source is None:
            text = f"is of {result.chapter}, which is no chapter with code here"
            merged.problems.append(Problem(result.place, 0, text))
        elif reason := _why_unusable(plan, source, result, python):
            text = f"cannot be used: {reason}; run {result.chapter} again from this commit"
            merged.problems.append(Problem(result.place, 0, text))
        elif result.chapter not in first:
            first[result.chapter] = result
        elif not _same(first[result.chapter], result):
            other = first[result.chapter]
            text = f"differs from {other.place}: two machines do not agree on {result.chapter}"
            merged.problems.append(Problem(result.place, 0, text))
            if result.failed:
                first[result.chapter] = result  # a failure is told, whatever another machine says
    named = {result.chapter for result in found}
    for path, source in sources.items():
        if path in first:
            _add(merged, source, first[path])
        elif path not in named and path not in kept:
            name = Path(path).stem
            text = f"no machine has run it: book run --only {name} --to FOLDER"
            merged.problems.append(Problem(path, 0, text))
    return merged


def _why_unusable(plan: Plan, source: Source, result: Result, python: str) -> str | None:
    if result.outcome["text"] != source.md5:
        return "it was made from another text"
    if result.failed:
        return None
    if reason := freezing.why_unusable(result.frozen):
        return reason
    if result.frozen.inputs["seal"] != result.outcome["seal"]:
        return "its freeze is that of another run"
    root = plan.project.root
    locked, entries = locked_versions(root), digests(plan.ledger.values())
    verdict = judge(
        source,
        result.frozen,
        plan.settings,
        lambda inputs: changes(inputs, root, entries, locked, python),
    )
    return None if verdict.state == "fresh" else verdict.reason


def _same(one: Result, other: Result) -> bool:
    """Whether two machines agree: to the byte where they are alike, else in what failed."""
    if one.failed or other.failed:
        return one.failed == other.failed
    if one.frozen.numbers["environment"] != other.frozen.numbers["environment"]:
        return True  # each is inside the tolerances; the first is taken
    return one.frozen.files == other.frozen.files


def _add(merged: Merged, source: Source, result: Result) -> None:
    outcome = result.outcome
    record, seconds = outcome["record"], float(outcome.get("seconds", 0))
    if result.failed:
        problems = tuple(Problem(*problem) for problem in outcome["problems"])
        failure = Failure(source, problems, seconds, tuple(outcome["drifts"]), record)
        merged.results.append(failure)
    else:
        merged.made[source.path] = result.frozen
        merged.results.append(Run(source, (), {}, record, seconds))
