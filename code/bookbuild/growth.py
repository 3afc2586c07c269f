"""How a build grows with the book: books of small chapters, built, built again, edited.

Each command is a process of its own, so that its peak memory can be told. A step that grows faster
than the book would be found at a thousand chapters, long before anyone writes them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bookbuild.bench_book import Page, Text, many_pages
from bookbuild.bench_tools import Tool, environment_of, our_tool
from bookbuild.problems import BookError, Problem

LINEAR = 1.15  # an exponent up to this is linear: times of small books are not exact
NOTHING_CHANGED = 2.0  # seconds that a build may take in which nothing changed
STEPS = ("execute", "render", "nothing changed", "one word")


def measure(
    root: Path, folder: Path, sizes: Sequence[int], jobs: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """For each number of chapters: step → wall and processor seconds, and peak memory in MB.

    Raises BookError for a build that fails. The memory is that of the build's own process: kernels
    and pandoc are as many at a time as there are jobs, whatever the size of the book.
    """
    tool = our_tool(root, jobs)
    rows = []
    for size in sizes:
        place = folder / f"growth-{size}"
        place.mkdir()
        pages = many_pages(size)
        tool.write(pages, place)
        steps = {"execute": _run(tool, place, "execute"), "render": _run(tool, place, "build")}
        steps["nothing changed"] = _run(tool, place, "build")
        tool.write(edited(pages), place)
        steps["one word"] = _run(tool, place, "build")
        told = "  ".join(f"{name} {step['seconds']:.2f} s" for name, step in steps.items())
        say(f"{size:6} chapters  {told}")
        rows.append({"chapters": size, "steps": steps})
    return rows


def edited(pages: Sequence[Page]) -> list[Page]:
    """The same book with one more word on its second page."""
    page = pages[1]
    first = Text(f"{page.pieces[0].markdown} Indeed.")
    return [pages[0], Page(page.name, page.title, (first, *page.pieces[1:])), *pages[2:]]


def _run(tool: Tool, place: Path, verb: str) -> dict[str, float]:
    command = [verb if word == "build" else word for word in tool.commands([], True)[0]]
    started = time.perf_counter()
    with (place.parent / "said.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=place, env=environment_of(tool, place), stdout=log, stderr=log
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        text = (place.parent / "said.log").read_text("utf-8", "replace").strip().splitlines()
        raise BookError(Problem("growth", 0, f"{verb} failed: {(text or ['no message'])[-1]}"))
    peak = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "processor": round(used.ru_utime + used.ru_stime, 2),
        "memory": round(peak, 1),
    }


def faults(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Where a book grows worse than it may, as sentences."""
    found = [
        f"{step} grows with the power {value:.2f} of the number of chapters"
        for step, value in steepest(rows).items()
        if value > LINEAR
    ]
    last = rows[-1]
    taken = last["steps"]["nothing changed"]["seconds"]
    if taken >= NOTHING_CHANGED:
        found.append(f"{last['chapters']} chapters: {taken} s with nothing changed")
    return found


def exponent(small: tuple[int, float], large: tuple[int, float]) -> float:
    """Of the power of the size by which a value grows: 1 is linear."""
    from math import log

    return log(large[1] / small[1]) / log(large[0] / small[0])


def steepest(rows: Sequence[dict[str, Any]], what: str = "seconds") -> dict[str, float]:
    """Step → the largest exponent from one size to the next."""
    pairs = list(pairwise(rows))
    return {
        step: max(
            exponent(*((row["chapters"], row["steps"][step][what]) for row in pair))
            for pair in pairs
        )
        for step in STEPS
        if pairs
    }
