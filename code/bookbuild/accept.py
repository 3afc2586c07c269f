"""Move one expected value of the ledger, on purpose and with a reason. No way to move many."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from bookbuild import drifts
from bookbuild.build import problem_of
from bookbuild.freeze import FREEZE, RESULTS, number_of
from bookbuild.problems import BookError, Problem
from ledger.entries import LEDGER, UNSAFE, Entry, LedgerError, line_of, load_ledger
from ledger.inputs import Inputs, changes
from ledger.values import Value, deviation


def accept(root: Path, id: str, reason: str) -> str:
    """Write the last computed value of `id` into the ledger; a sentence that says what was done.

    The entry keeps a history: the old and the new value, the reason, the versions that computed it.
    The value is the one that drifted in the last build, else the one in the freeze. Only the
    entry's own `value` and `accepted` lines change. Raises BookError where nothing can be accepted,
    as where what computed the value has changed since.
    """
    path = root / LEDGER
    try:
        ledger = load_ledger(path)
    except LedgerError as error:
        raise BookError([problem_of(line) for line in str(error).splitlines()]) from None
    if id not in ledger:
        raise BookError(Problem(LEDGER, 0, f"has no entry {id}"))
    if not reason.strip() or UNSAFE.search(reason):
        raise BookError(
            Problem(LEDGER, 0, f"the reason must be one line of plain text, got {reason!r}")
        )
    entry = ledger[id]
    value, versions = _last_computed(root, entry)
    if value is None:
        raise BookError(Problem(LEDGER, 0, f"nothing has computed {id} yet; run book build first"))
    if deviation(entry.value, value) == 0:
        return f"{id} is {_toml(value)} already"
    text = path.read_bytes().decode()
    line = line_of(text, id)
    note = f"{_toml(entry.value)} -> {_toml(value)}: {reason.strip()}"
    note += f" ({versions})" if versions else ""
    moved = _replace(text, id, _toml(value), [*entry.accepted, note])
    if moved is None or not _same_but(text, moved, id):
        raise BookError(Problem(LEDGER, line, f"could not rewrite [{id}]; edit it by hand"))
    temporary = path.with_name(f"{LEDGER}.new")
    try:
        temporary.write_bytes(moved.encode())
        load_ledger(temporary)
        temporary.replace(path)
    except LedgerError as error:
        why = str(error).partition(f"[{id}] ")[2]
        text = f"[{id}] would not fit the value {_toml(value)}: {why}; edit it by hand"
        raise BookError(Problem(LEDGER, line, text)) from None
    finally:
        temporary.unlink(missing_ok=True)
    return f"{id}: {_toml(entry.value)} -> {_toml(value)}; now run make site"


def _last_computed(root: Path, entry: Entry) -> tuple[Value | None, str]:
    """The value, and the versions that gave it; (None, "") where nothing has computed it."""
    try:
        drifted = json.loads((root / drifts.VALUES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        drifted = {}
    if entry.id in drifted:
        return drifted[entry.id]["got"], drifted[entry.id].get("versions", "")
    for path in sorted((root / FREEZE).glob(f"**/{RESULTS}/numbers.json")):
        try:
            numbers = json.loads(path.read_text(encoding="utf-8"))
            inputs = json.loads(path.with_name("inputs.json").read_text(encoding="utf-8"))
            rows = {row["id"]: row["value"] for row in numbers["numbers"]}
            computed_from = Inputs(modules=inputs["modules"], data=inputs["data"])
        except (OSError, ValueError, LookupError, TypeError):
            continue  # a freeze that a build will find unusable and replace
        if entry.id in rows:
            value = rows[entry.id]
            if changed := changes(computed_from, root, {}, {}):
                text = f"{entry.id} was computed before {changed[0]}; run make site first"
                raise BookError(Problem(LEDGER, 0, text))
            versions = drifts.versions({**inputs, "environment": numbers["environment"]})
            return value if isinstance(entry.value, str) else number_of(value), versions
    return None, ""


def _replace(text: str, id: str, value: str, accepted: list[str]) -> str | None:
    """The ledger with one entry's value changed and its history longer; every other byte as it was.

    None where the entry is written in a way that is not understood here.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    head = re.compile(rf"\[{re.escape(id)}\]\s*(#.*)?$")
    first = next((number for number, line in enumerate(lines) if head.match(line)), None)
    places = _statements(lines, first + 1) if first is not None else {}
    if "value" not in places:
        return None
    last = max(end for _, end in places.values())
    if not lines[last - 1].endswith("\n"):
        lines[last - 1] += newline
    start, end = places["value"]
    before, equals, rest = lines[start].partition("=")
    blank = rest[: len(rest) - len(rest.lstrip(" \t"))]
    comment = _comment(rest) if end == start + 1 else newline
    notes = "".join(f"  {_toml(note)},{newline}" for note in accepted)
    changed = {
        places["value"]: f"{before}{equals}{blank}{value}{comment}",
        places.get("accepted", (last, last)): f"accepted = [{newline}{notes}]{newline}",
    }
    for (start, end), new in sorted(changed.items(), reverse=True):
        lines[start:end] = [new]
    return "".join(lines)


def _statements(lines: list[str], start: int) -> dict[str, tuple[int, int]]:
    """The lines from..to of each `key = value` of the table whose first line is `start`."""
    found = {}
    while start < len(lines) and not lines[start].startswith("["):
        end = start + 1
        while (parsed := _parsed("".join(lines[start:end]))) is None and end < len(lines):
            end += 1  # an array or a text that runs over several lines
        found |= dict.fromkeys(parsed or (), (start, end))
        start = end
    return found


def _comment(rest: str) -> str:
    """What follows a value on its line: blanks, a comment, the line's end."""
    for number, sign in enumerate(rest):
        if sign == "#" and _parsed(f"value = {rest[:number]}") is not None:
            return rest[len(rest[:number].rstrip()) :]
    return rest[len(rest.rstrip()) :]


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _same_but(one: str, other: str, id: str) -> bool:
    """Whether two ledgers differ in nothing but the value and the history of one entry."""
    tables = _parsed(one), _parsed(other)
    for table in tables:
        if table is None or id not in table:
            return False
        table[id] = {
            key: field for key, field in table[id].items() if key not in ("value", "accepted")
        }
    return repr(tables[0]) == repr(tables[1])  # NaN differs from itself, its text does not


def _toml(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value).lower() if isinstance(value, bool) else repr(value)
