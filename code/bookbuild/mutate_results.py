"""What the trial of faults gave, as the book shows it: written, read, and known to be out of date.

`media/data/mutation.json` names what it was made from. A page made from it says so when that has
changed (`filters/how-sure.lua`); `problems` says it for each fault.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bookbuild.mutate import FAULTS, PACKAGE, Fault, Faults, Target, reached
from bookbuild.mutate_entries import Moved, insensitive, totals
from bookbuild.mutate_run import Outcome
from bookbuild.records import hashes

RESULTS = "media/data/mutation.json"
FORMAT = 1
SHARE = 0.95  # of the faults that the book's checks must find


def as_record(
    root: Path, faults: Faults, outcomes: Mapping[str, Outcome], moved: Sequence[Moved]
) -> dict[str, Any]:
    """What the file holds."""
    rows = []
    for fault in faults.faults:
        outcome = asdict(outcomes[fault.id])
        del outcome["fault"]
        head = {"id": fault.id, "file": fault.file, "says": fault.says}
        rows.append({**head, **outcome, "survives": fault.survives})
    return {
        "format": FORMAT,
        "made_from": made_from(root),
        "out_of_reach": dict(faults.out_of_reach),
        "faults": rows,
        "entries": {
            **totals(moved),
            "unnoticed": [asdict(one) for one in moved if one.unnoticed],
        },
    }


def made_from(root: Path) -> dict[str, str]:
    """SHA-1 of the list of faults and of each module."""
    return hashes(root, [root / FAULTS, *sorted((root / PACKAGE).rglob("*.py"))])


def read(root: Path) -> dict[str, Any] | None:
    """The record, or None where there is none of this format."""
    try:
        record = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("format") == FORMAT else None


def outcomes_of(record: Mapping[str, Any] | None) -> dict[str, Outcome]:
    """The outcomes of a record by the fault's id."""
    fields = set(Outcome.__dataclass_fields__) - {"fault"}
    rows = record["faults"] if record else ()
    return {row["id"]: Outcome(row["id"], **{key: row[key] for key in fields}) for row in rows}


def problems(
    record: Mapping[str, Any] | None,
    root: Path,
    faults: Faults,
    targets: Sequence[Target],
    moved: Sequence[Moved],
) -> Iterator[str]:
    """Everything that is out of date in a record, or not as it should be."""
    if record is None:
        yield f"{RESULTS} is missing or of another format; run make mutate"
        return
    outcomes = outcomes_of(record)
    known = {fault.id for fault in faults.faults}
    for fault in faults.faults:
        if fault.id not in outcomes:
            yield f"{fault.id} was never tried; run make mutate"
        elif not outcomes[fault.id].holds(fault, targets):
            yield f"{fault.id}: what it was tried on has changed since; run make mutate"
        else:
            yield from unexplained(fault, outcomes[fault.id], targets)
    yield from (f"{id} is no fault of {FAULTS} any more; run make mutate"
                for id in outcomes if id not in known)  # fmt: skip
    yield from untried(root, faults)
    if record["made_from"] != made_from(root):
        yield "texts of the package or of the faults have changed since; run make mutate"
    told = {key: record["entries"][key] for key in totals(moved)}
    if told != totals(moved):
        yield f"entries: {told} in {RESULTS}, {dict(totals(moved))} now; run make mutate"
    yield from (insensitive(one) for one in moved if one.unnoticed)


def unexplained(fault: Fault, outcome: Outcome, targets: Sequence[Target]) -> Iterator[str]:
    """Whether a fault and its reason to survive go together."""
    if outcome.killed and fault.survives:
        yield f"{fault.id}: is found by {outcome.chapter} now; remove its reason to survive"
    if not outcome.killed and not fault.survives:
        if reached(fault, targets):
            yield f"{fault.id}: no check finds it: {fault.says} Add one, or say why it survives"
        else:
            yield f"{fault.id}: no chapter imports {fault.path}"


def untried(root: Path, faults: Faults) -> Iterator[str]:
    """Modules of the package that no fault is about."""
    tried = {fault.file for fault in faults.faults}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = path.relative_to(root / PACKAGE).as_posix()
        if name not in tried and name not in faults.out_of_reach:
            yield f"{name}: no fault of {FAULTS} is about it"
        if name in tried and name in faults.out_of_reach:
            yield f"{name}: is said to be out of reach, and has faults"


def summary(record: Mapping[str, Any]) -> str:
    """One line on how the trial went."""
    faults = record["faults"]
    killed = sum(bool(row["how"]) for row in faults)
    entries = record["entries"]
    return (
        f"{killed} of {len(faults)} faults found ({killed / max(1, len(faults)):.1%}) in "
        f"{sum(row['seconds'] for row in faults) / 60:.0f} minutes of computing; "
        f"{entries['sensitive']} of {entries['entries']} entries notice every move"
    )
