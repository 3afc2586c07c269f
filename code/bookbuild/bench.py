"""How long builds take, ours and those of other tools, for the same content in one run.

Every tool builds the same book from nothing, then again with nothing changed, with one word changed
and with one cell changed; tool after tool, and all of it several times, so that what else the
machine does falls on all of them. What is kept of a repetition is each time as a share of the
fastest peer's in the same repetition: those shares are comparable where seconds are not.
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bookbuild.bench_book import CELL as CELL_LABEL
from bookbuild.bench_book import EDITED, WORD, Page, eight_pages
from bookbuild.bench_tools import CELL, COLD, MEASURES, NOTHING, Tool, environment_of
from bookbuild.bench_tools import WORD as ONE_WORD
from bookbuild.problems import BookError, Problem

OURS = "book"
TARGETS = {COLD: 0.7, NOTHING: 0.3, ONE_WORD: 0.5, CELL: 0.8}  # of the fastest peer
WORDS = ("rather", "nearly", "always", "seldom", "mostly", "almost", "hardly", "fairly", "partly")


@dataclass(frozen=True)
class Time:
    """One build: wall seconds, and processor seconds of all its processes."""

    tool: str
    measure: str
    repetition: int
    seconds: float
    processor: float


def measure(
    tools: Sequence[Tool],
    folder: Path,
    repetitions: int,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Time]:
    """Times of every tool in every repetition. Raises BookError for a build that fails.

    Args:
        folder: an empty folder, in which each repetition of each tool gets its own.
    """
    found = []
    for repetition in range(repetitions):
        # Another one begins each time: none is always the first after a pause.
        for tool in [*tools[repetition % len(tools) :], *tools[: repetition % len(tools)]]:
            place = folder / f"{tool.name.replace(' ', '-').lower()}-{repetition}"
            place.mkdir()
            for name in (one for one in MEASURES if one in tool.measures):
                one = _build(tool, place, name, repetition, clock)
                found.append(one)
                say(f"{repetition + 1}  {tool.name:14}{name:17}{one.seconds:7.2f} s")
            shutil.rmtree(place)
    return found


def pages_of(name: str, repetition: int) -> tuple[Page, ...]:
    """The book as it is when `name` is measured. No two repetitions make the same edit.

    So what a tool has kept of an earlier repetition saves it nothing.
    """
    word = WORDS[repetition % len(WORDS)] if name in (ONE_WORD, CELL) else WORD
    return eight_pages(word, repetition + 1 if name == CELL else 0)


def _build(tool: Tool, place: Path, name: str, repetition: int, clock) -> Time:
    pages = pages_of(name, repetition)
    tool.write(pages, place)
    whole = name in (COLD, NOTHING)
    names = [page.name for page in pages if whole or page.name == EDITED]
    environment = environment_of(tool, place)
    before, started = os.times(), clock()
    running = [
        subprocess.Popen(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for command in tool.commands(names, whole)
    ]  # fmt: skip
    said = [process.communicate()[0].decode(errors="replace") for process in running]
    seconds, after = clock() - started, os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    for process, text in zip(running, said, strict=True):
        if process.returncode:
            last = (text.strip().splitlines() or ["no message"])[-1]
            raise BookError(Problem(tool.name, 0, f"failed at {name}: {last}"))
    _check(tool, place, pages)
    return Time(tool.name, name, repetition, seconds, used)


def _check(tool: Tool, place: Path, pages: Sequence[Page]) -> None:
    """Raise BookError unless the edited page says what the source says and its cell printed."""
    page = next(page for page in pages if page.name == EDITED)
    code = next(cell.code for cell in page.cells if cell.label == CELL_LABEL)
    value = re.search(r"variant = (\d+)", code)[1]
    wanted = [f"variant {value} of"]
    wanted += re.findall(r"it is said (\w+) how well", page.pieces[0].markdown)
    path = place / tool.page.format(name=EDITED)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for words in wanted:
        if words not in text:
            raise BookError(Problem(tool.name, 0, f"built {path.name} without {words!r}"))


# What it comes to.


def summary(times: Sequence[Time], ours: str = OURS) -> dict[str, Any]:
    """Tool → measure → seconds and shares of the fastest peer, each as median and range."""
    best = {}
    for one in times:
        if one.tool != ours:
            key = one.measure, one.repetition
            best[key] = min(best.get(key, one.seconds), one.seconds)
    found: dict[str, Any] = {}
    for one in times:
        row = found.setdefault(one.tool, {}).setdefault(
            one.measure, {"seconds": [], "processor": [], "share": []}
        )
        row["seconds"].append(one.seconds)
        row["processor"].append(one.processor)
        if fastest := best.get((one.measure, one.repetition)):
            row["share"].append(one.seconds / fastest)
    return {
        tool: {
            measure: {what: spread(values) for what, values in row.items() if values}
            for measure, row in measures.items()
        }
        for tool, measures in found.items()
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = min(values), statistics.median(values), max(values)
    return {"median": round(middle, 3), "min": round(low, 3), "max": round(high, 3)}


def missed(found: Mapping[str, Any], ours: str = OURS) -> list[str]:
    """Targets that the medians miss, as sentences."""
    return [
        f"{name}: {row['share']['median']:.2f} of the fastest peer, wanted at most {TARGETS[name]}"
        for name, row in found.get(ours, {}).items()
        if "share" in row and row["share"]["median"] > TARGETS[name]
    ]


# On what it was measured.


def machine() -> dict[str, Any]:
    """The machine in plain words; nothing that names it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("keras", "numpy", "matplotlib")},
    }


def load() -> float:
    """How many processes wanted a core in the minute before, on average."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return " ".join(re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)[1].split())
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
