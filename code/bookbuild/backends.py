"""Recompute the book's numbers on other backends of Keras, and say of each whether it agrees.

A number should be a property of the Transformer, not of the library that multiplies. So every
chapter is executed on JAX and on PyTorch, with the draws of random numbers that each has of its
own, and each entry is compared with the ledger within its own tolerance. An entry that cannot
agree says why: it is tied to TensorFlow (`tied` in the ledger). Chapters with such entries are
executed once more, now with TensorFlow's draws: whether a draw is the reason is measured as well.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookbuild.backend_pythons import BACKENDS, Backend, python_for
from bookbuild.build import Plan
from bookbuild.placing import WORK
from bookbuild.problems import Problem
from bookbuild.recompute import Computed, Environment, recompute, with_code
from bookbuild.records import hashes, put_record
from bookbuild.run import Failure, Run
from bookbuild.source import Source
from bookbuild.variables import share_of_cores
from bookbuild.watch import versions
from ledger.entries import LEDGER, Entry, line_of, load_ties
from ledger.inputs import CODE, RUNNING
from ledger.values import deviation

RESULTS = Path("media/data/backends.json")
FORMAT = 1
# How an entry fared on one backend. OWN: it agrees. SAME: it does once TensorFlow draws the random
# numbers. RAISED: it was not computed, because its cell, or one before it, raised an error.
OWN, SAME, DIFFERS, RAISED = "own", "same", "differs", "raised"
# The name of the reason that only says: the draws are others. It is held to be true.
DRAWS = "draws"
CHECK = re.compile(r"""\bcheck\(\s*f?(["'])(?P<id>[^"']+)\1""")


@dataclass(frozen=True)
class Reading:
    """How one entry fared on one backend: one of the words above, and how far off it was.

    off: in tolerances, with the draws that `how` tells of; infinite where that is no number.
    message: for DIFFERS and RAISED, what came.
    """

    how: str
    off: float = 0.0
    message: str = ""


def environments(backend: Backend, python: str) -> tuple[Environment, Environment]:
    """With the backend's own draws of random numbers, and with TensorFlow's."""
    variables = {"KERAS_BACKEND": backend.name, **backend.variables}

    def environment(name: str, first: Sequence[str]) -> Environment:
        files = [backend.lock, *(Path(__file__).with_name(f"{module}.py") for module in first)]
        made_from = RUNNING + "".join(path.read_text(encoding="utf-8") for path in files)
        code = "\n".join(f"import bookbuild.{module}" for module in first)
        return Environment(name, variables, python, code, made_from)

    return (
        environment(backend.name, backend.first),
        environment(f"{backend.name} same draws", (*backend.first, "backend_draws")),
    )


def compute(
    plan: Plan,
    backend: Backend,
    python: str,
    sources: Sequence[Source],
    *,
    jobs: int,
    timeout: float,
    told: Callable[[str], None] = lambda line: None,
) -> dict[str, Reading]:
    """id → how it fared on `backend`, for every entry that these chapters check."""
    own, same = environments(backend, python)
    folder = plan.project.root / WORK / "backends" / "results"

    def run(environment: Environment, chapters: Sequence[Source]) -> dict[str, Computed]:
        def done(result: Run | Failure) -> None:
            what = f"{len(result.record.get('checked', {}))} numbers, {result.seconds:.0f} s"
            told(f"{environment.name}: {Path(result.source.path).stem} {what}")

        return recompute(
            plan, chapters, environment, folder,
            jobs=jobs, timeout=timeout, keep_going=True, outer=share_of_cores(jobs), told=done,
        )  # fmt: skip

    places = places_of(sources, plan.ledger)
    first = run(own, sources)
    readings = read(plan.ledger, places, first)
    away = {places[id][0] for id, reading in readings.items() if reading.how != OWN}
    second = run(same, [source for source in sources if source.path in away])
    return {
        id: with_same_draws(plan.ledger[id], reading, second.get(places[id][0]))
        for id, reading in readings.items()
    }


def places_of(sources: Sequence[Source], ledger: Mapping[str, Entry]) -> dict[str, tuple[str, int]]:
    """id → chapter and line of the cell that checks it.

    An id that a cell puts together is looked for by the pieces of text around what it puts in.
    """
    found = {}
    for source in sources:
        for cell in source.cells:
            for call in CHECK.finditer(cell.code):
                line = cell.code_line + cell.code.count("\n", 0, call.start("id"))
                ids = [call["id"]]
                if "{" in call["id"]:
                    form = re.sub(r"\\\{.*?\\\}", "[a-z0-9-]+", re.escape(call["id"]))
                    ids = filter(re.compile(form).fullmatch, ledger)
                found |= {id: (source.path, line) for id in ids if id in ledger and id not in found}
    return found


def read(
    ledger: Mapping[str, Entry],
    places: Mapping[str, tuple[str, int]],
    computed: Mapping[str, Computed],
) -> dict[str, Reading]:
    """How each entry fared that the chapters check, with the draws that they had."""
    return {
        id: _reading(ledger[id], OWN, computed[path], line)
        for id, (path, line) in places.items()
        if path in computed
    }


def _reading(entry: Entry, how: str, computed: Computed, line: int) -> Reading:
    if entry.id not in computed.checked:
        return Reading(RAISED, math.inf, _why_not(computed.raised, line))
    got = computed.checked[entry.id]
    off = deviation(entry.value, got)
    far = off / entry.tolerance if entry.tolerance else (math.inf if off else 0.0)
    if off <= entry.tolerance:
        return Reading(how, far)
    by = f" ({far:.3g} tolerances off)" if math.isfinite(far) else ""
    return Reading(DIFFERS, far, f"is {_short(got)}, expected {_short(entry.value)}{by}")


def _why_not(raised: Sequence[Problem], line: int) -> str:
    """What kept the cell on that line from its check: the last error until then that is no mere
    lack of a name, which an earlier error left behind.
    """
    before = [problem.text for problem in raised if problem.line <= line]
    causes = [text for text in before if ": NameError: " not in text]
    return (causes or before or ["its cell ran, and did not come to the check"])[-1]


def with_same_draws(entry: Entry, reading: Reading, computed: Computed | None) -> Reading:
    """The reading, or that with TensorFlow's draws where only these agree."""
    if reading.how == OWN or computed is None:
        return reading
    second = _reading(entry, SAME, computed, 0)
    return second if second.how == SAME else reading


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:50]} … {text[-20:]}"


def problems(
    root: Path,
    ledger: Mapping[str, Entry],
    places: Mapping[str, tuple[str, int]],
    readings: Mapping[str, Mapping[str, Reading]],
) -> list[Problem]:
    """What is wrong: entries that fare otherwise than the ledger says. Backend → id → reading."""
    found = []
    for name, of_backend in readings.items():
        for id, reading in of_backend.items():
            entry, title = ledger[id], BACKENDS[name].title
            if not entry.tied and reading.how != OWN:
                text = f"{id} {_what(title, reading)}"
                if reading.how == SAME:
                    text += f"; if that is all, say so in {LEDGER}: tied = {DRAWS!r}"
            elif entry.tied == DRAWS and reading.how not in (OWN, SAME):
                text = f"{id} {_what(title, reading)}, and so it does with TensorFlow's draws: "
                text += f"{DRAWS!r} is not why"
            else:
                continue
            path, line = places[id]
            found.append(Problem(path, line, text))
    return sorted(found)


def _what(title: str, reading: Reading) -> str:
    if reading.how == RAISED:
        return f"was not computed on {title}: {reading.message}"
    if reading.how == SAME:
        return f"agrees on {title} only with TensorFlow's draws of random numbers"
    return f"on {title} {reading.message}"


def needless(
    ledger: Mapping[str, Entry], readings: Mapping[str, Mapping[str, Reading]]
) -> list[str]:
    """Ids that are tied to TensorFlow, but agree on every backend with its own draws."""
    return [
        id
        for id, entry in ledger.items()
        if entry.tied
        and readings
        and all(id in one and one[id].how == OWN for one in readings.values())
    ]


def record(
    root: Path,
    ledger: Mapping[str, Entry],
    readings: Mapping[str, Mapping[str, Reading]],
    libraries: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What the appendix shows. `libraries`: backend → library → version."""
    unmarked = [id for id, entry in ledger.items() if not entry.tied]
    rows = []
    for name, of_backend in readings.items():
        offs = {id: of_backend[id].off for id in unmarked if id in of_backend}
        worst = max(offs, key=lambda id: (math.isfinite(offs[id]), offs[id]), default=None)
        rows.append(
            {
                "name": name,
                "title": BACKENDS[name].title,
                "versions": dict(libraries[name]),
                "unmarked": _tally(of_backend, unmarked),
                "tied": _tally(of_backend, [id for id, entry in ledger.items() if entry.tied]),
                "worst": {"id": worst, "tolerances": round(offs[worst], 2)} if worst else None,
            }
        )
    return {
        "format": FORMAT,
        "made_from": hashes(root, sorted((root / CODE / "measured").rglob("*.py"))),
        "entries": len(ledger),
        "unmarked": len(unmarked),
        "backends": rows,
        "ties": list(_ties(root, ledger, readings)),
        "agreement": {
            id: {name: one[id].how for name, one in readings.items() if id in one} for id in ledger
        },
    }


def _ties(root, ledger, readings) -> Iterator[dict[str, Any]]:
    for name, reason in load_ties(root / LEDGER).items():
        ids = [id for id, entry in ledger.items() if entry.tied == name]
        tallies = {b: _tally(of_backend, ids) for b, of_backend in readings.items()}
        yield {"reason": reason, "entries": len(ids), "backends": tallies}


def _tally(readings: Mapping[str, Reading], ids: Iterable[str]) -> dict[str, int]:
    hows = [readings[id].how for id in ids if id in readings]
    return {how: hows.count(how) for how in (OWN, SAME, DIFFERS, RAISED)}


def verify(
    plan: Plan,
    *,
    names: Sequence[str] = (),
    chapters: Sequence[str] = (),
    jobs: int,
    timeout: float,
    told: Callable[[str], None],
    python_of: Callable[..., str] = python_for,
) -> tuple[list[Problem], list[str]]:
    """Compute on the backends; problems, and lines that sum up. Only a run over everything writes
    the results. `told` hears a line for each chapter that was executed.
    """
    root, ledger = plan.project.root, plan.ledger
    wanted = {plan.project.chapter(name).path for name in chapters}
    sources = [one for one in with_code(plan) if not wanted or one.path in wanted]
    readings, libraries = {}, {}
    for backend in BACKENDS.values():
        if names and backend.name not in names:
            continue
        started = time.monotonic()
        python = python_of(root, backend, told)
        there = versions(python)
        shown = ("keras", *backend.libraries, "numpy")
        libraries[backend.name] = {name: there[name] for name in shown if name in there}
        readings[backend.name] = compute(
            plan, backend, python, sources, jobs=jobs, timeout=timeout, told=told
        )
        told(f"{backend.title}: {time.monotonic() - started:.0f} s")
    places = places_of(sources, ledger)
    found = problems(root, ledger, places, readings)
    made = record(root, ledger, readings, libraries)
    said = [summary(made)]
    if unneeded := needless(ledger, readings):
        said.append(f"tied, though they agree everywhere: {', '.join(unneeded)}")
    if not names and not wanted:
        text = (root / LEDGER).read_text(encoding="utf-8")
        found += [
            Problem(LEDGER, line_of(text, id), f"{id}: no cell checks it by a name that is seen")
            for id in ledger
            if id not in places
        ]
        put_record(root / RESULTS, made)
        said.append(str(RESULTS))
    return found, said


def summary(made: Mapping[str, Any]) -> str:
    share = made["unmarked"] / made["entries"] if made["entries"] else 1
    parts = [f"{made['unmarked']} of {made['entries']} entries ({share:.1%}) are not tied"]
    for row in made["backends"]:
        open_, tied = row["unmarked"], row["tied"]
        parts.append(
            f"{row['title']}: {open_[OWN]} of {sum(open_.values())} agree; of those tied "
            f"{tied[OWN]} agree, {tied[SAME]} with TensorFlow's draws, {tied[DIFFERS]} differ, "
            f"{tied[RAISED]} were not computed"
        )
    return "\n".join(parts)
