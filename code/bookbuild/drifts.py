"""What a build leaves behind about numbers that moved: for `book accept`, and as a report to read.

Both lie below `.book` and are those of the last build that executed something.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bookbuild.run import Failure, Run

VALUES = Path(".book/drifts.json")
REPORT = Path(".book/drift-report.txt")
# Of all that a chapter imports, what its numbers can depend on.
NUMERICAL = ("tensorflow", "tensorflow-cpu", "keras", "jax", "torch", "numpy", "scipy")
NUMERICAL += ("scikit-learn",)


def note(root: Path, results: Sequence[Run | Failure]) -> None:
    """Keep the values that drifted, each with what computed it, and write the report."""
    drifted = {
        drift["id"]: {
            "got": drift["got"],
            "chapter": result.source.path,
            "versions": versions(result.record),
        }
        for result in results
        if isinstance(result, Failure)
        for drift in result.drifts
    }
    text = json.dumps(drifted, ensure_ascii=False)
    (root / VALUES).write_text(text, encoding="utf-8")
    if drifted:
        (root / REPORT).write_text(report(results), encoding="utf-8")
    else:
        (root / REPORT).unlink(missing_ok=True)


def versions(record: dict[str, Any]) -> str:
    """Python and the numerical libraries of a run, such as `Python 3.11.7, keras 3.15.1`."""
    libraries = record.get("libraries", {})
    found = [f"{name} {libraries[name]}" for name in sorted(NUMERICAL) if name in libraries]
    python = record.get("environment", {}).get("python")
    return ", ".join([*([f"Python {python}"] if python else []), *found])


def counts(results: Sequence[Run | Failure]) -> tuple[int, int]:
    """How many of the recomputed numbers moved, and how many did not."""
    moved = sum(len(result.drifts) for result in results if isinstance(result, Failure))
    return moved, sum(len(result.record.get("checked", {})) for result in results) - moved


def report(results: Sequence[Run | Failure]) -> str:
    """Every number that moved, with what changed; then the names of those that did not."""
    moved, held = counts(results)
    lines = [f"{moved} of {moved + held} recomputed numbers moved.", ""]
    for result in results:
        drifts = result.drifts if isinstance(result, Failure) else ()
        ids = {drift["id"] for drift in drifts}
        checked = result.record.get("checked", {})
        lines.append(f"# {result.source.path}: {len(ids)} of {len(checked)} moved")
        if used := versions(result.record):
            lines.append(f"computed with {used}")
        for drift in drifts:
            lines += ["", f"{result.source.path}:{drift['line']}: {drift['message']}"]
        lines += ["", "did not move: " + (", ".join(i for i in checked if i not in ids) or "none")]
        lines.append("")
    return "\n".join(lines)
