"""Ledger and chapters bind each other: each entry is checked once, nothing is said unchecked."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.entries import LEDGER, Entry, line_of


@dataclass(frozen=True)
class Bound:
    """What one chapter did with the ledger."""

    chapter: str
    checked: tuple[str, ...]
    said: tuple[str, ...]
    worded: tuple[str, ...] = ()  # what words of its prose rest on


def unbound(ledger: Mapping[str, Entry], root: Path, bounds: Iterable[Bound]) -> list[tuple]:
    """(path, line, text) for each broken tie. `bounds` must cover the whole book."""
    owner: dict[str, str] = {}
    found = []
    bounds = list(bounds)
    for bound in bounds:
        for id in bound.checked:
            if id in owner:
                line = _line(root / bound.chapter, id, "check(")
                text = f"{id} is checked by {owner[id]} too; give one of them its own entry"
                found.append((bound.chapter, line, text))
            owner.setdefault(id, bound.chapter)
    for bound in bounds:
        for id in bound.said:
            if id not in owner:
                line = _line(root / bound.chapter, id, "say(")
                found.append((bound.chapter, line, f"{id} is said, but no chapter checks it"))
        for id in dict.fromkeys(bound.worded):
            if id not in owner:
                line = _line(root / bound.chapter, id, "=")
                text = f"{id} is said in words, but no chapter checks it"
                found.append((bound.chapter, line, text))
    text = (root / LEDGER).read_text(encoding="utf-8") if ledger else ""
    for id in ledger:
        if id not in owner:
            found.append(
                (LEDGER, line_of(text, id), f"[{id}] is checked by no chapter; remove it or use it")
            )
    return found


def _line(path: Path, id: str, call: str) -> int:
    """The line that names `id` in a `check(` or `say(`, else the first that names it."""
    text = path.read_text(encoding="utf-8")
    quoted = rf"""(["']){re.escape(id)}\1"""
    found = re.search(rf"{re.escape(call)}\s*{quoted}", text) or re.search(quoted, text)
    return text.count("\n", 0, found.start()) + 1 if found else 0
