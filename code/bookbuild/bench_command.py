"""Measure, and write what was measured to media/data/bench.json, from which a page is made."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bookbuild import bench, growth
from bookbuild.bench_book import eight_pages
from bookbuild.bench_tools import tools
from bookbuild.placing import WORK
from bookbuild.records import put_record

RESULTS = "media/data/bench.json"
FORMAT = 1


def peers(root: Path, jobs: int, repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure all tools, write the results down and return them."""
    work = root / WORK / "bench"
    work.mkdir(parents=True, exist_ok=True)
    found = tools(root, work, jobs, say)
    before = bench.load()
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as folder:
        times = bench.measure(found, Path(folder), repetitions, say)
    pages = eight_pages()
    return put(
        root,
        "peers",
        {
            "pages": len(pages),
            "cells": sum(len(page.cells) for page in pages),
            "repetitions": repetitions,
            "jobs": jobs,
            "load": before,
            "versions": {tool.name: tool.version for tool in found},
            "targets": bench.TARGETS,
            "tools": bench.summary(times),
        },
    )


def grow(root: Path, sizes: list[int], jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Build books of several sizes, write down how they fared and return that."""
    work = root / WORK / "bench"
    work.mkdir(parents=True, exist_ok=True)
    before = bench.load()
    with tempfile.TemporaryDirectory(prefix="growth-", dir=work) as folder:
        rows = growth.measure(root, Path(folder), sizes, jobs, say)
    return put(root, "growth", {"jobs": jobs, "load": before, "rows": rows})


def put(root: Path, name: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """Put one part of the results in place of an earlier one; the other part stays."""
    path = root / RESULTS
    whole = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    whole = {**whole, "format": FORMAT, name: {**part, "machine": bench.machine()}}
    put_record(path, whole)
    return whole[name]
