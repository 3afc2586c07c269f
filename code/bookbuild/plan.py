"""Divide a book among several machines: which of them executes which chapters.

    book plan --json                        what there is to do, as a matrix for GitHub Actions
    book run --only masking --to results    one part of it, on any machine
    book merge results…                     all parts, put together

Each machine has a working copy of the same commit and an environment from the same lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookbuild.stale import Verdict

# One workflow of GitHub Actions takes no more jobs from a matrix.
MOST = 256


@dataclass(frozen=True)
class Part:
    """What one machine does."""

    chapters: tuple[Verdict, ...]

    @property
    def name(self) -> str:
        first = _name(self.chapters[0])
        return first if len(self.chapters) == 1 else f"{first} and {len(self.chapters) - 1} more"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(chapter) for chapter in self.chapters)


def divide(
    verdicts: Sequence[Verdict], machines: int = MOST, only_stale: bool = False
) -> list[Part]:
    """One chapter a machine; where there are more chapters, shares of about as many cells each.

    Args:
        only_stale: leave out what the freeze still holds; else everything with code is executed.
    """
    todo = [v for v in verdicts if v.state == "stale" or (v.state != "plain" and not only_stale)]
    order = {verdict.source.path: place for place, verdict in enumerate(todo)}
    shares: list[list[Verdict]] = [[] for _ in range(min(machines, len(todo)))]
    loads = [0] * len(shares)
    # The largest first, each to the machine that has the least to do so far.
    for verdict in sorted(todo, key=lambda one: (-_cells(one), order[one.source.path])):
        least = loads.index(min(loads))
        shares[least].append(verdict)
        loads[least] += _cells(verdict)
    parts = [sorted(share, key=lambda one: order[one.source.path]) for share in shares]
    parts.sort(key=lambda share: order[share[0].source.path])
    return [Part(tuple(share)) for share in parts]


def matrix(parts: Sequence[Part]) -> Mapping[str, list[dict[str, str]]]:
    """The parts as GitHub Actions takes them: `matrix: ${{ fromJSON(…) }}`.

    `chapters` are the arguments of `book run`; `id` is fit for the name of an artifact.
    """
    return {
        "include": [
            {
                "id": part.names[0],
                "name": part.name,
                "chapters": " ".join(f"--only {name}" for name in part.names),
            }
            for part in parts
        ]
    }


def _name(verdict: Verdict) -> str:
    return verdict.source.path.rpartition("/")[2].removesuffix(".qmd")


def _cells(verdict: Verdict) -> int:
    return max(1, len(verdict.source.cells))
