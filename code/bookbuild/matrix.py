"""Recompute every number in other environments, and say how far each one strays.

A tolerance is only as good as its reason. Here each chapter is executed under other thread counts,
instruction sets, BLAS kernels, hash seeds and Pythons; the spread of each number over all of them
stands beside its tolerance.
"""

import math
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bookbuild.build import Plan
from bookbuild.freeze import number_of
from bookbuild.placing import WORK
from bookbuild.problems import BookError, Problem
from bookbuild.recompute import Environment, recompute, with_code
from bookbuild.records import put_record
from bookbuild.variables import THREADS
from ledger.entries import Entry
from ledger.inputs import LOCK
from ledger.values import Value, deviation, shape

SPREAD = Path("media/data/spread.json")
# A tolerance under twice the spread may drift by chance; one over twenty times may hide a drift.
NARROW, WIDE = 2, 20
FAILED = "failed"
COMMITTED = "as committed"


def threads(count: int) -> Environment:
    text = "1 thread" if count == 1 else f"{count} threads"
    return Environment(text, dict.fromkeys(THREADS, str(count)))


def environments(found_pythons: Iterable[str] = ()) -> list[Environment]:
    """Those that the committed numbers are compared with."""
    found = [
        threads(1),
        threads(8),
        Environment("without oneDNN", {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        Environment("another hash seed", {"PYTHONHASHSEED": "12345"}),
    ]
    if platform.machine().lower() in ("x86_64", "amd64"):
        found += [
            Environment("oneDNN for AVX2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
            Environment("OpenBLAS for Haswell", {"OPENBLAS_CORETYPE": "Haswell"}),
            Environment("OpenBLAS for Sandybridge", {"OPENBLAS_CORETYPE": "Sandybridge"}),
        ]
    found += [Environment(_version_of(python), python=python) for python in found_pythons]
    return found


def other_pythons(root: Path, candidates: Sequence[str] = ("3.11", "3.12", "3.13")) -> list[str]:
    """Interpreters of other supported minors on PATH, each in an environment made from the lock."""
    found = []
    for minor in candidates:
        program = shutil.which(f"python{minor}")
        if minor == f"{sys.version_info[0]}.{sys.version_info[1]}" or not _runs(program, minor):
            continue
        folder = root / WORK / "matrix" / f"python{minor}"
        stamp = folder / "made-from"
        lock = (root / LOCK).read_text(encoding="utf-8")
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != lock:
            shutil.rmtree(folder, ignore_errors=True)
            python = str(folder / "bin" / "python")
            install = [
                "install",
                "--quiet",
                "--no-deps",
                "--require-hashes",
                "-r",
                str(root / LOCK),
            ]
            for command in ([program, "-m", "venv", str(folder)], [python, "-m", "pip", *install]):
                done = subprocess.run(command, capture_output=True, text=True, cwd=root)
                if done.returncode:
                    said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
                    text = f"no environment of python{minor} could be made from it: {said[0]}"
                    raise BookError(Problem(LOCK, 0, text))
            stamp.write_text(lock, encoding="utf-8")
        found.append(str(folder / "bin" / "python"))
    return found


def _runs(program: str | None, minor: str) -> bool:
    """Whether a program is that Python: a version manager leaves names of what is switched off."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    if program is None:
        return False
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == minor


def _version_of(python: str) -> str:
    code = "import platform; print('Python', platform.python_version())"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def compute(
    plan: Plan,
    environment: Environment,
    *,
    jobs: int,
    timeout: float,
    told: Callable[[str], None] = lambda chapter: None,
) -> dict[str, Value | str]:
    """id → value of every number, computed in `environment`; FAILED where a chapter raised.

    `told` hears each chapter that was executed now.
    """
    found = recompute(
        plan,
        with_code(plan),
        environment,
        plan.project.root / WORK / "matrix",
        jobs=jobs,
        timeout=timeout,
        told=lambda result: told(result.source.path),
    )
    values: dict[str, Value | str] = {}
    for path, computed in found.items():
        values |= computed.checked
        if computed.raised:  # whatever it did not reach has no value here
            values = dict.fromkeys(_frozen_ids(plan, path), FAILED) | values
    return values


def committed(plan: Plan) -> dict[str, Value]:
    """id → value of every number as the freeze has it. Raises BookError for a stale chapter."""
    if plan.stale:
        raise BookError(
            [Problem(v.source.path, 0, f"is stale: {v.reason}; run make site") for v in plan.stale]
        )
    frozen = [verdict.frozen.numbers for verdict in plan.verdicts if verdict.frozen is not None]
    return {
        number["id"]: number_of(number["value"])
        for numbers in frozen
        for number in numbers["numbers"]
    }


def _frozen_ids(plan: Plan, path: str) -> list[str]:
    for verdict in plan.verdicts:
        if verdict.source.path == path and verdict.frozen is not None:
            return [number["id"] for number in verdict.frozen.numbers["numbers"]]
    return []


def spread(values: Sequence[Value | str]) -> float:
    """The largest distance between two of the values, element by element; infinite where they
    differ in shape, or in what cannot be measured (texts, truths, a failure).
    """
    first = values[0]
    if isinstance(first, list):
        if len({shape(value) for value in values}) > 1:
            return math.inf
        return max((spread(items) for items in zip(*values, strict=True)), default=0.0)
    if len({str(value) for value in values}) == 1:
        return 0.0
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    if not numbers or any(isinstance(value, bool) for value in values):
        return math.inf
    return max(values) - min(values)


def table(
    ledger: Mapping[str, Entry], runs: Mapping[str, Mapping[str, Value | str]]
) -> dict[str, Any]:
    """What `media/data/spread.json` holds: each entry's spread over the environments, its
    tolerance, and the environment in which it lay farthest from the first one.
    """
    names = list(runs)
    usual = runs[names[0]]
    entries = {}
    for id, entry in ledger.items():
        there = [name for name in names if id in runs[name]]
        if id not in usual or len(there) < len(names):
            continue
        values = [runs[name][id] for name in names]
        away = [_distance(usual[id], value) for value in values]
        farthest = max(away)
        found = spread(values)
        entries[id] = {
            "spread": found if math.isfinite(found) else "not measurable",
            "tolerance": entry.tolerance,
            "where": names[away.index(farthest)] if farthest > 0 else "",
        }
    missing = [id for id in ledger if id not in entries]
    return {"environments": names, "entries": entries, "missing": missing}


def _distance(one: Value | str, other: Value | str) -> float:
    return math.inf if FAILED in (one, other) and one != other else deviation(one, other)


def flag(row: Mapping[str, Any]) -> str:
    """What is odd about one row of the table: "", "differs", "narrow" or "wide".

    Exact entries must not stray at all. A spread of zero says nothing about a tolerance: the
    environments at hand agree to the bit, and others (another processor, another system) may not.
    """
    found, tolerance = row["spread"], row["tolerance"]
    if not isinstance(found, int | float):
        return "differs"
    if tolerance == 0:
        return "differs" if found else ""
    if found and tolerance < NARROW * found:
        return "narrow"
    if found and tolerance > WIDE * found:
        return "wide"
    return ""


def verify_matrix(
    plan: Plan, *, jobs: int, timeout: float, told: Callable[[str], None]
) -> dict[str, Any]:
    """Compute in every environment and write the table; the table. `told` hears a line for each."""
    root = plan.project.root
    runs = {COMMITTED: committed(plan)}
    for environment in environments(other_pythons(root)):
        started = time.monotonic()
        ran: list[str] = []
        runs[environment.name] = compute(
            plan, environment, jobs=jobs, timeout=timeout, told=ran.append
        )
        seconds = time.monotonic() - started
        told(f"{environment.name.ljust(26)}{len(ran)} chapters ran, {seconds:.0f} s")
    found = table(plan.ledger, runs)
    put_record(root / SPREAD, found)
    return found


def differing(found: Mapping[str, Any]) -> list[str]:
    """A line for each number that is not the same where it must be."""
    return [
        f"{id}: spread {row['spread']}, tolerance {row['tolerance']}, farthest: {row['where']}"
        for id, row in found["entries"].items()
        if flag(row) == "differs"
    ]


def summary(found: Mapping[str, Any]) -> str:
    flags = [flag(row) for row in found["entries"].values()]
    return (
        f"{len(flags)} numbers in {len(found['environments'])} environments: "
        f"{flags.count('differs')} differ though they must not, {flags.count('narrow')} have a "
        f"tolerance under {NARROW} spreads, {flags.count('wide')} over {WIDE}, "
        f"{len(found['missing'])} were not computed; {SPREAD.as_posix()}"
    )
