"""Kernels forked from a process that has imported the heavy libraries once.

To start a kernel and import TensorFlow takes seconds, again and again for every chapter. Here one
process imports them, and each chapter's kernel is forked from it: see bookbuild.warm_child. What a
chapter computes and what it is recorded to use are the same as in a kernel started for it alone;
`book verify` starts those, and so compares the two. Where a process cannot be forked safely, which
is everywhere but on Linux, there are only kernels started alone.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bookbuild.source import Source
from ledger.inputs import LOCK, file_digest

# Imported ahead for the chapters that import them. A chapter that imports the first needs what the
# second brings anyway, so one is enough for it. Nothing belongs here that looks for a running
# kernel when it is imported, or starts threads.
ROOTS = ("keras", "numpy")
CHILD = Path(__file__).with_name("warm_child.py")
IMPORT = re.compile(
    r"^(?:import[ \t]+(?P<modules>[\w., \t]+)"
    r"|from[ \t]+(?P<package>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*))",
    re.MULTILINE,
)


def imported(code: str) -> Iterator[str]:
    """Modules that code imports outside of functions; for `from a import b`, `a` and `a.b`."""
    for found in IMPORT.finditer(code):
        if found["modules"]:
            yield from (part.split()[0] for part in found["modules"].split(",") if part.strip())
            continue
        yield found["package"]
        for name in re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?[ \t]*(?:,|$|\n|\))", found["names"]):
            yield f"{found['package']}.{name}"


def libraries(source: Source, code: Path, known: dict[str, set[str]]) -> set[str]:
    """Top-level libraries that a chapter seems to import, by itself or through modules in `code`.

    Args:
        known: what modules import, filled as they are read.
    """
    found: set[str] = set()
    left = [name for cell in source.cells for name in imported(cell.code)]
    seen: set[str] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        top = name.partition(".")[0]
        if not (code / top).is_dir() and not (code / f"{top}.py").is_file():
            found.add(top)
            continue
        if name not in known:
            known[name] = set(_imported_by(code, name))
        left += known[name]
    return found


def _imported_by(code: Path, name: str) -> Iterator[str]:
    path = code.joinpath(*name.split("."))
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if file.is_file():
            yield from imported(file.read_text(encoding="utf-8", errors="replace"))
    if "." in name:
        yield name.rpartition(".")[0]


class Gone(Exception):
    """The process that kernels are forked from has ended, or never came to be."""


class Nursery:
    """A process that kernels are forked from."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self._alone = threading.Lock()  # of those who ask
        self._ready = False

    def fork(self, arguments: Sequence[str], env: Mapping[str, str], cwd: str, log: str) -> int:
        """Process number of a new kernel. Waits until the libraries are imported."""
        return self._ask({"arguments": list(arguments), "env": dict(env), "cwd": cwd, "log": log})[
            "pid"
        ]

    def release(self, pid: int) -> None:
        """Let a kernel that has ended go, so that its number may be given to another process."""
        self._ask({"release": pid})

    def wait(self) -> None:
        """Until the libraries are imported."""
        with self._alone:
            self._await()

    def end(self) -> None:
        """Kill it, and with it what was forked from it."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def _await(self) -> None:
        if not self._ready:
            self._answer()
            self._ready = True

    def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._alone:
            self._await()
            try:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
            except OSError:
                raise Gone from None
            return self._answer()

    def _answer(self) -> Mapping[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise Gone
        return json.loads(line)


class Nurseries:
    """Processes that kernels are forked from, each started when a chapter first needs it.

    They may be kept from build to build. One that has ended, or that was started with other
    variables or for another lock, is replaced.
    """

    def __init__(self):
        self._started: dict[str, tuple[tuple, Nursery]] = {}
        self._folder: Path | None = None

    def of(
        self, root: Path, sources: Sequence[Source], environment: Mapping[str, str]
    ) -> Mapping[str, Nursery]:
        """Path of a chapter → the process that its kernel may be forked from.

        Nothing is waited for: the libraries are imported while the caller does other things.
        """
        if not possible():
            return {}
        known: dict[str, set[str]] = {}
        wanted = {}
        for source in sources:
            tops = libraries(source, root / "code", known)
            wanted[source.path] = next((one for one in ROOTS if one in tops), "")
        made_for = (root, file_digest(root / LOCK), tuple(sorted(environment.items())))
        for name in sorted(set(wanted.values())):
            earlier, nursery = self._started.get(name, (None, None))
            if earlier == made_for and nursery.process.poll() is None:
                continue
            if nursery:
                nursery.end()
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="book-warm-"))
            started = Nursery(_start(root, name, environment, self._folder))
            self._started[name] = made_for, started
        return {path: self._started[name][1] for path, name in wanted.items()}

    def __enter__(self) -> "Nurseries":
        return self

    def __exit__(self, *_) -> None:
        """Kill them, and with them what was forked from them."""
        for _, nursery in self._started.values():
            nursery.end()
        self._started = {}
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


@contextmanager
def nurseries(
    root: Path,
    sources: Sequence[Source],
    environment: Mapping[str, str],
    kept: Nurseries | None = None,
) -> Iterator[Mapping[str, Nursery]]:
    """What `Nurseries.of` gives. They end with the block, unless they are `kept` by the caller."""
    with nullcontext(kept) if kept else Nurseries() as started:
        yield started.of(root, sources, environment)


def _start(root: Path, name: str, environment: Mapping[str, str], folder: Path) -> subprocess.Popen:
    (folder / "matplotlibrc").touch()
    with (folder / f"{name or 'kernel'}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(CHILD), *filter(None, [name])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # what interrupts the build is for the build to handle
            # What libraries read when they are imported is what a kernel of their own would give.
            env={
                **environment,
                "PYTHONPATH": str(root / "code"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "KERAS_HOME": str(folder / "keras"),
                "IPYTHONDIR": str(folder / "ipython"),
                "MATPLOTLIBRC": str(folder / "matplotlibrc"),
                "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            },
        )


def possible() -> bool:
    """Whether this system forks processes that have imported much, and tells how they fare."""
    return sys.platform == "linux" and Path("/proc/self/stat").is_file()
