"""How long chapters took when they were last executed, so that the longest begin first.

A chapter of minutes that begins last is what a build on several cores waits for.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bookbuild.run import Failure, Run
from bookbuild.source import Source

NOTE = "took.json"  # in the work folder


def longest_first(work: Path, sources: Sequence[Source]) -> list[Source]:
    """Those of whom nothing is known come before all others, in the book's order."""
    known = _read(work)
    return sorted(sources, key=lambda source: -known.get(source.path, float("inf")))


def note(work: Path, results: Sequence[Run | Failure]) -> None:
    """Remember how long chapters took; of those that failed, what is known already stays."""
    ran = {one.source.path: round(one.seconds, 1) for one in results if isinstance(one, Run)}
    known = {**_read(work), **ran}
    (work / NOTE).write_text(json.dumps(known, sort_keys=True), encoding="utf-8")


def _read(work: Path) -> Mapping[str, float]:
    try:
        known = json.loads((work / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    pairs = known.items() if isinstance(known, dict) else ()
    return {path: seconds for path, seconds in pairs if isinstance(seconds, int | float)}
