"""Why a number may have moved: whatever differs from the run whose numbers held last.

The freeze is that run's record: its modules, data, library versions and machine.
Libraries are compared with those that run now, whatever a lock file says.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ledger.entries import Entry
from ledger.environment import environment
from ledger.inputs import Inputs, Installed, changes, file_digest, module_name


def causes(root: Path, document: str) -> list[str]:
    """What differs from `document`'s last good run, each as a phrase, the likeliest first.

    Other ledger entries are left out: they cannot move a number.
    Raises LookupError, ValueError, TypeError or OSError where that run left no usable record.
    """
    results = root / "_freeze" / document.removesuffix(".qmd") / "execute-results"
    record = json.loads((results / "inputs.json").read_text("utf-8"))
    numbers = json.loads((results / "numbers.json").read_text("utf-8"))
    then = Inputs(*(record[key] for key in ("modules", "data")), libraries=record["libraries"])
    found = changes(then, root, {}, Installed())
    moved = {
        module_name(path): path
        for path, digest in then.modules.items()
        if file_digest(root / path) != digest
    }
    named = [_with_commit(root, phrase, moved.get(phrase.partition(" ")[0])) for phrase in found]
    return named + machine_changes(numbers["environment"], environment())


def entry_changed(root: Path, document: str, entry: Entry) -> bool:
    """Whether the ledger's entry is not the one that `document`'s last good run knew."""
    results = root / "_freeze" / document.removesuffix(".qmd") / "execute-results"
    record = json.loads((results / "inputs.json").read_text("utf-8"))
    return record["ledger"].get(entry.id) != entry.digest()


def _with_commit(root: Path, phrase: str, path: str | None) -> str:
    """A changed module's phrase with the commit that changed it last."""
    if path is None or not phrase.endswith("changed"):
        return phrase
    if _git(root, "status", "--porcelain", "--", path):
        return f"{phrase} (not committed)"
    commit = _git(root, "log", "-1", "--format=%h %s", "--", path)
    return f"{phrase} (last in {commit})" if commit else phrase


def _git(root: Path, *arguments: str) -> str:
    """What git says, or nothing where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What of Python, processor, threads and BLAS is not as it was, each as a phrase."""
    found = []
    for key, name in (("python", "Python"), ("machine", "the machine"), ("threads", "threads")):
        if then.get(key) != now.get(key):
            verb = "were" if key == "threads" else "was"
            found.append(f"{name} {verb} {then.get(key)}, now {now.get(key)}")
    if gone := _less(then.get("cpu", ()), now.get("cpu", ())):
        found.append(f"the processor lacks {' and '.join(gone)}")
    if new := _less(now.get("cpu", ()), then.get("cpu", ())):
        found.append(f"the processor has {' and '.join(new)} too")
    if now.get("blas") and then.get("blas") and set(now["blas"]) != set(then["blas"]):
        found.append(f"BLAS was {', '.join(then['blas'])}, is {', '.join(now['blas'])}")
    return found


def _less(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return [item for item in one if item not in set(other)]
