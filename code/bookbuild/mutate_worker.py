"""A warmed process in which faults are tried, and the copy of the project that it works on."""

import ast
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bookbuild.mutate import PACKAGE, Fault

# Made by builds, or the environment: nothing that a chapter reads.
NOT_COPIED = {".venv", ".git", ".book", ".quarto", "_book", "_freeze"}
COPIED = {"code", "chapters", "ledger.toml", "_quarto.yml"}


class Worker:
    """A warmed process, and the copy of the project in which it tries faults."""

    def __init__(self, process: subprocess.Popen, tree: Path):
        self.process, self.tree = process, tree

    def run(
        self, chapter: str, cells: Sequence[str], limit: float, expected: Sequence[str]
    ) -> dict[str, Any]:
        request = {
            "root": str(self.tree),
            "chapter": chapter,
            "cells": list(cells),
            "limit": limit,
            "expected": list(expected),
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that tries faults has died")
        return json.loads(answer)

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        """The copy with the fault in it, and without it afterwards."""
        path = self.tree / fault.path
        text = path.read_text(encoding="utf-8")
        path.write_text(fault.apply(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")


@contextmanager
def worker(root: Path, modules: Sequence[str], environment: Mapping[str, str]) -> Iterator[Worker]:
    """A worker for the project in `root`. `modules` are imported once, before the first request."""
    folder = Path(tempfile.mkdtemp(prefix="book-mutate-"))
    try:
        tree = copy_tree(root, folder / "tree")
        process = subprocess.Popen(
            [sys.executable, "-m", "bookbuild.mutate_child", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={
                **environment,
                "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "MPLBACKEND": "agg",
                "IPYTHONDIR": str(folder / "ipython"),
                "KERAS_HOME": str(folder / "keras"),
            },
        )
        try:
            yield Worker(process, tree)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_tree(root: Path, tree: Path) -> Path:
    """The project once more: what faults or chapters could touch is copied, the rest linked."""
    tree.mkdir()
    for path in sorted(root.iterdir()):
        if path.name in NOT_COPIED:
            continue
        if path.name not in COPIED and path.suffix != ".qmd":
            (tree / path.name).symlink_to(path.resolve())
        elif path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, tree / path.name, ignore=ignore)
        else:
            shutil.copyfile(path, tree / path.name)
    return tree


def warm_modules(root: Path) -> list[str]:
    """What all modules of the package together import at once from elsewhere."""
    found = {"matplotlib.pyplot"}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return sorted(name for name in found if name.partition(".")[0] != Path(PACKAGE).name)
