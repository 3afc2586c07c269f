"""Read `ledger.toml`: one entry for each number that the book states."""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from ledger.values import Value, is_value, is_whole, show

LEDGER = "ledger.toml"
TEXTS = ("statement", "reason", "source")
FIELDS = {*TEXTS, "value", "tolerance", "format", "unit", "accepted", "tied"}
# Tables of reasons, not of entries: why prose may type a number, why an entry is tied.
CONSTANTS, TIED = "constants", "tied"
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Printed inside a Markdown attribute, which may stand in a pipe table or in a formula.
UNSAFE = re.compile(r'["`$|\\\n]')


class LedgerError(Exception):
    """`ledger.toml` cannot be used. The message starts with `ledger.toml:line:`."""


@dataclass(frozen=True)
class Entry:
    """One verified number: what it states, what it must be, how far it may stray, and why.

    tied: why only TensorFlow gives the value, and JAX or PyTorch another: a name of the table
        [tied]; else empty.
    """

    id: str
    statement: str
    value: Value
    tolerance: float
    reason: str
    source: str
    format: str = ""
    unit: str = ""
    accepted: tuple[str, ...] = ()
    tied: str = ""

    def show(self, value: Value) -> str:
        """`value` as the book prints it: in this entry's format, with its unit."""
        return show(value, self.format, self.unit)

    @property
    def band(self) -> str:
        return "exact" if self.tolerance == 0 else f"± {self.tolerance:g}"

    def digest(self) -> str:
        """A hash of all that a page can show of the entry.

        Not of `tied`: what other backends give changes nothing on the page.
        """
        names = [field.name for field in fields(self) if field.name != "tied"]
        values = {name: getattr(self, name) for name in names}
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def load_ledger(path: Path) -> dict[str, Entry]:
    """All entries by id, in the file's order. A folder without the file has an empty ledger."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise LedgerError(f"{path.name}:1: is not UTF-8: {error.reason}") from None
    try:
        tables = dict(_parsed(text))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found.group(1)) if found else len(text.splitlines())
        raise LedgerError(f"{path.name}:{line}: is not TOML: {error}") from None
    _reasons(path.name, text, tables, CONSTANTS)
    ties = _reasons(path.name, text, tables, TIED)
    wrong = [
        f"{path.name}:{line_of(text, id)}: [{id}] {problem}"
        for id, table in tables.items()
        for problem in _problems(id, table, ties)
    ]
    if wrong:
        raise LedgerError("\n".join(wrong))
    return {id: _entry(id, table) for id, table in tables.items()}


def load_constants(path: Path) -> dict[str, str]:
    """Numbers that prose may type, with the reasons: the table [constants] of the ledger."""
    return _load_reasons(path, CONSTANTS)


def load_ties(path: Path) -> dict[str, str]:
    """Why entries are tied to TensorFlow, by the names that they give: the table [tied]."""
    return _load_reasons(path, TIED)


def _load_reasons(path: Path, table: str) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return _reasons(path.name, text, dict(_parsed(text)), table)


@lru_cache(maxsize=1)
def _parsed(text: str) -> Mapping[str, Any]:
    """The ledger's tables, read once by whoever wants the entries and then the constants."""
    return tomllib.loads(text)


def _reasons(name: str, text: str, tables: dict[str, Any], table: str) -> dict[str, str]:
    """Take a table of reasons out of `tables` and return it."""
    found = tables.pop(table, {})
    for key, reason in found.items():
        if not isinstance(reason, str) or not reason.strip():
            line = line_of(text, table)
            raise LedgerError(f"{name}:{line}: [{table}] {key} needs a reason")
    return found


def line_of(text: str, id: str) -> int:
    """The line on which the table of `id` begins, or 1."""
    head = re.search(rf"^\[{re.escape(id)}\]", text, re.MULTILINE)
    return text.count("\n", 0, head.start()) + 1 if head else 1


def _entry(id: str, table: Mapping[str, Any]) -> Entry:
    fields = {key: value for key, value in table.items() if key != "accepted"}
    return Entry(id=id, accepted=tuple(table.get("accepted", ())), **fields)


def _problems(id: str, table: Any, ties: Mapping[str, str]) -> list[str]:
    if not isinstance(table, Mapping):
        return ["must be a table: [id] on a line of its own, then its fields"]
    found = []
    if not ID.fullmatch(id):
        found.append("is no id: use lower-case words joined by hyphens")
    found += [f"has an unknown field {key}" for key in sorted(set(table) - FIELDS)]
    found += [
        f"lacks {key}"
        for key in ("statement", "value", "tolerance", "reason", "source")
        if key not in table
    ]
    for key in TEXTS:
        text = table.get(key, "")
        if not isinstance(text, str) or (key in table and not text.strip()):
            found.append(f"{key} must be a text that says something")
        elif unsafe := UNSAFE.search(text):
            found.append(f"{key} may not hold {unsafe.group()!r}, which would break the page")
    found += [
        f"{key} must be a text"
        for key in ("format", "unit")
        if not isinstance(table.get(key, ""), str)
    ]
    if "tied" in table and table["tied"] not in list(ties):
        known = ", ".join(ties) or "nothing yet"
        found.append(f"tied must name a reason of the table [{TIED}], which has {known}")
    accepted = table.get("accepted", [])
    if not isinstance(accepted, list) or not all(isinstance(note, str) for note in accepted):
        found.append("accepted must be a list of texts; it is written by book accept")
    if found:
        return found
    value, tolerance = table["value"], table["tolerance"]
    if not is_value(value):
        return ["value must be a number, a text, true, false, or a regular list of numbers"]
    is_number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
    if not is_number or not 0 <= tolerance < math.inf:
        return ["tolerance must be a finite number that is not negative; 0 means exact"]
    if tolerance > 0 and isinstance(value, str | bool):
        return ["tolerance must be 0 where the value is a text or true or false"]
    if table.get("format", "").endswith("d") and not is_whole(value):
        return [f"format {table['format']!r} is for whole numbers; the value is not one"]
    try:
        show(value, table.get("format", ""), table.get("unit", ""))
    except (ValueError, TypeError) as error:
        return [f"format {table.get('format')!r} does not fit the value: {error}"]
    return []
