"""Would each entry of the ledger fail if its expected value were a little different?

Every number in every expected value is moved alone by one and a half tolerances, up and down; an
exact one by the least that its kind has. The last frozen value, put through the very check that
chapters use, has to be refused each time. Nothing is executed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bookbuild import freeze as freezing
from bookbuild.project import Project
from ledger.entries import LEDGER, Entry, load_ledger
from ledger.session import DriftError, Session
from ledger.values import Value, deviation

FACTOR = 1.5


@dataclass(frozen=True)
class Moved:
    """One entry: in how many ways it was moved, and how many of these went unnoticed.

    `off` is how far the computed value lies from the expected one, in tolerances: beyond one half,
    a move by one and a half towards it is not seen.
    """

    id: str
    moves: int
    unnoticed: int
    off: float


def move_entries(project: Project) -> tuple[list[Moved], list[str]]:
    """What became of each entry that a chapter checks, and the ids of those without a value yet."""
    ledger = load_ledger(project.root / LEDGER)
    computed = frozen_values(project)
    done = [moved(entry, computed[id]) for id, entry in ledger.items() if id in computed]
    return done, [id for id in ledger if id not in computed]


def frozen_values(project: Project) -> dict[str, Value]:
    """The value of each number as it was computed last."""
    found = {}
    for chapter in project.chapters:
        frozen = freezing.read(project.root / freezing.folder_of(chapter.path))
        if frozen is not None and freezing.why_unusable(frozen) is None:
            for row in frozen.numbers["numbers"]:
                found[row["id"]] = row["value"]
    return found


def moved(entry: Entry, computed: Value) -> Moved:
    """Move the entry's expectation in every way, and check the computed value against each."""
    if not isinstance(entry.value, str):
        computed = freezing.number_of(computed)
    moves = unnoticed = 0
    for value in expectations(entry.value, entry.tolerance):
        moves += 1
        unnoticed += _accepts(replace(entry, value=value), computed)
    off = deviation(entry.value, computed)
    return Moved(entry.id, moves, unnoticed, off / entry.tolerance if entry.tolerance else off)


def _accepts(entry: Entry, value: Value) -> bool:
    """Whether a chapter's check would pass."""
    try:
        Session(Path(), "", {entry.id: entry}).check(entry.id, value)
    except DriftError:
        return False
    return True


def expectations(value: Value, tolerance: float) -> Iterator[Value]:
    """Every expectation that differs from `value` in one place, by little, or lacks its end."""
    yield from _moves(value, tolerance)
    if isinstance(value, list) and value:
        yield value[:-1]


def _moves(value: Value, tolerance: float) -> Iterator[Value]:
    if isinstance(value, list):
        for place, item in enumerate(value):
            for other in _moves(item, tolerance):
                yield [*value[:place], other, *value[place + 1 :]]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield value + "."
        yield value[:-1] if value else "?"
    elif not math.isfinite(value):
        yield 0.0
    elif tolerance:
        yield value + FACTOR * tolerance
        yield value - FACTOR * tolerance
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    else:
        yield math.nextafter(value, math.inf)
        yield math.nextafter(value, -math.inf)


def totals(done: list[Moved]) -> Mapping[str, int]:
    return {
        "entries": len(done),
        "moves": sum(one.moves for one in done),
        "noticed": sum(one.moves - one.unnoticed for one in done),
        "sensitive": sum(one.unnoticed == 0 for one in done),
    }


def insensitive(one: Moved) -> str:
    return (
        f"{one.id}: {one.unnoticed} of {one.moves} moves of its expected value go unnoticed; the "
        f"computed value is {one.off:.2f} tolerances off the centre"
    )
