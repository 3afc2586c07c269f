"""Move one expected value of the ledger, on purpose and with a reason. There is no way to move many."""

import json
import re
from pathlib import Path

from bookbuild.build import WORK
from bookbuild.freeze import FREEZE, RESULTS
from bookbuild.problems import BookError, Problem
from ledger.entries import LEDGER, UNSAFE, LedgerError, line_of, load_ledger
from ledger.values import Value


def accept(root: Path, id: str, reason: str) -> str:
    """Write the last computed value of `id` into the ledger; a sentence that says what was done.

    The value is the one that drifted in the last build, else the one in the freeze. Only the
    entry's own `value` and `accepted` lines change. Raises BookError when there is nothing to accept.
    """
    path = root / LEDGER
    try:
        ledger = load_ledger(path)
    except LedgerError as error:
        raise BookError(Problem(LEDGER, 0, str(error))) from None
    if id not in ledger:
        raise BookError(Problem(LEDGER, 0, f"has no entry {id}"))
    if not reason.strip() or UNSAFE.search(reason):
        raise BookError(
            Problem(LEDGER, 0, f"the reason must be one line of plain text, got {reason!r}")
        )
    value = _last_computed(root, id)
    if value is None:
        raise BookError(Problem(LEDGER, 0, f"nothing has computed {id} yet; run book build first"))
    entry = ledger[id]
    if value == entry.value:
        return f"{id} is {_toml(value)} already"
    text = path.read_text(encoding="utf-8")
    note = f"{_toml(entry.value)} -> {_toml(value)}: {reason.strip()}"
    moved = _replace(text, id, _toml(value), [*entry.accepted, note])
    temporary = path.with_name(f"{LEDGER}.new")
    temporary.write_text(moved, encoding="utf-8")
    if load_ledger(temporary)[id].value != value:
        temporary.unlink()
        raise BookError(
            Problem(LEDGER, line_of(text, id), f"could not rewrite [{id}]; edit it by hand")
        )
    temporary.replace(path)
    return f"{id}: {_toml(entry.value)} -> {_toml(value)}; now run make site"


def _last_computed(root: Path, id: str) -> Value | None:
    try:
        drifts = json.loads((root / WORK / "drifts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        drifts = {}
    if id in drifts:
        return drifts[id]["got"]
    for path in sorted((root / FREEZE).glob(f"**/{RESULTS}/numbers.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["numbers"]:
            if row["id"] == id:
                return row["value"]
    return None


def _replace(text: str, id: str, value: str, accepted: list[str]) -> str:
    """The ledger with one entry's value changed; every other byte as it was."""
    start = re.search(rf"^\[{re.escape(id)}\][^\n]*\n", text, re.MULTILINE).end()
    following = re.search(r"^\[", text[start:], re.MULTILINE)
    end = start + following.start() if following else len(text)
    table = text[start:end]
    # A value may run over several lines: up to the next `key =`, blank line or end.
    table = re.sub(
        r"^value\s*=.*?(?=^\w[\w-]*\s*=|^\s*$|\Z)",
        lambda _: f"value = {value}\n",
        table,
        count=1,
        flags=re.MULTILINE | re.DOTALL,
    )
    table = re.sub(r"^accepted\s*=\s*\[.*?\]\s*\n", "", table, flags=re.MULTILINE | re.DOTALL)
    body = table.rstrip("\n")
    gap = table[len(body) :]
    listed = "".join(f"  {_toml(note)},\n" for note in accepted)
    return f"{text[:start]}{body}\naccepted = [\n{listed}]{gap or chr(10)}{text[end:]}"


def _toml(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value).lower() if isinstance(value, bool) else repr(value)
