"""What `book mutate` does: try faults and write the results, or say what they lack."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bookbuild import mutate_results as results
from bookbuild.mutate import Fault, Faults, Target, load_faults, load_targets
from bookbuild.mutate_entries import insensitive, move_entries, totals
from bookbuild.mutate_run import Outcome, mutate, mutation_environment
from bookbuild.placing import WORK
from bookbuild.problems import BookError, Problem
from bookbuild.project import Project
from bookbuild.records import put_record


def run(
    project: Project,
    *,
    jobs: int,
    sample: int | None,
    seed: int,
    only: Sequence[str],
    told: Callable[[str], None],
) -> tuple[list[str], str]:
    """Try the faults; problems, and a line that sums up. Only a run over all writes the results.

    `told` hears a line for each fault that was tried now; results of earlier runs are taken over
    where nothing has changed that they depend on.
    """
    root = project.root
    faults, targets = load_faults(root), load_targets(project)
    chosen = choose(faults, sample, seed, only)
    began = time.monotonic()
    tried = []

    def done(outcome: Outcome) -> None:
        tried.append(outcome)
        told(line(outcome))

    outcomes = mutate(
        root,
        chosen,
        targets,
        results.outcomes_of(results.read(root)),
        jobs=jobs,
        environment=mutation_environment(root, jobs),
        work=root / WORK / "mutate",
        done=done,
        usual=lambda path, seconds: told(f"{Path(path).stem}: {seconds:.0f} s without a fault"),
    )
    seconds = time.monotonic() - began
    took = f"{len(tried)} tried now, {seconds:.0f} s"
    if len(chosen) < len(faults.faults):
        wrong = _unexplained(chosen, outcomes, targets)
        found = sum(outcome.killed for outcome in outcomes)
        return wrong, f"{found} of {len(chosen)} faults found; {took}"
    moved, missing = move_entries(project)
    record = results.as_record(root, faults, {o.fault: o for o in outcomes}, moved)
    put_record(root / results.RESULTS, record)
    wrong = [*results.problems(record, root, faults, targets, moved), *_uncomputed(missing)]
    return wrong, f"{results.summary(record)}; {took}"


def choose(faults: Faults, sample: int | None, seed: int, only: Sequence[str]) -> list[Fault]:
    """The faults to try, in the list's order. Raises BookError for an unknown id."""
    known = {fault.id for fault in faults.faults}
    if unknown := sorted(set(only) - known):
        raise BookError([Problem(results.FAULTS, 0, f"has no fault {id}") for id in unknown])
    chosen = [fault for fault in faults.faults if not only or fault.id in only]
    if sample is not None and sample < len(chosen):
        drawn = set(random.Random(seed).sample(range(len(chosen)), sample))
        chosen = [fault for place, fault in enumerate(chosen) if place in drawn]
    return chosen


def line(outcome: Outcome) -> str:
    """How one fault fared, for a terminal."""
    name = outcome.fault.ljust(36)
    if not outcome.killed:
        return f"{name}SURVIVED {outcome.seconds:.0f} s"
    where = f"{Path(outcome.chapter).stem} {outcome.cell}".strip()
    what = outcome.entry or outcome.message
    return f"{name}{outcome.how.ljust(8)}{outcome.seconds:4.0f} s  {where}: {what}"


def _unexplained(
    chosen: Sequence[Fault], outcomes: Sequence[Outcome], targets: Sequence[Target]
) -> list[str]:
    pairs = zip(chosen, outcomes, strict=True)
    return [text for pair in pairs for text in results.unexplained(*pair, targets)]


def check(project: Project) -> tuple[list[str], str]:
    """What is out of date or unexplained in the results that the book shows."""
    faults, targets = load_faults(project.root), load_targets(project)
    record = results.read(project.root)
    moved, missing = move_entries(project)
    wrong = [*results.problems(record, project.root, faults, targets, moved), *_uncomputed(missing)]
    return wrong, results.summary(record) if record else "no fault was tried yet"


def entries(project: Project) -> tuple[list[str], str]:
    """Which entries of the ledger do not notice that their expected value is moved."""
    moved, missing = move_entries(project)
    sums = totals(moved)
    said = (
        f"{sums['noticed']} of {sums['moves']} moves of {sums['entries']} expected values noticed; "
        f"{sums['sensitive']} entries notice each of theirs"
    )
    return [
        *map(insensitive, filter(lambda one: one.unnoticed, moved)),
        *_uncomputed(missing),
    ], said


def _uncomputed(missing: Sequence[str]) -> list[str]:
    return [f"{id}: no chapter has computed it yet" for id in missing]
