"""What a run was computed from: our modules, data files, ledger entries, libraries, Python.

The kernel records them while it runs; later the same names are looked up again, and whatever
differs is the reason why a number may have moved. Everything is read as bytes: nothing is imported
to decide that nothing has changed.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

LOCK = "requirements.lock"
CODE = "code"
# Read by the machinery itself, or written by it: never data of a chapter.
NOT_DATA = (".venv", ".git", ".book", ".quarto", "_book", "_freeze")
NOT_DATA_FILES = {"ledger.toml", "_quarto.yml", LOCK}
# In place of the hash of a file that was edited while the chapter ran: it is unknown which of its
# texts the numbers come from, so this matches no file and the chapter is stale.
MOVED = "changed during the run"
ENTRY = "ledger entry"  # how the reasons of `changes` begin that the ledger gives
# Part of every kernel, and able to change what a cell shows.
ALWAYS = {"ipykernel", "ipython", "matplotlib-inline"}


@dataclass(frozen=True)
class Inputs:
    """Name → hash (or version) of everything that one run of a chapter was computed from."""

    modules: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    python: str = ""  # its minor version; empty where nobody knows it

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Inputs":
        """Those of an inputs.json."""
        names = ("modules", "data", "ledger", "libraries")
        return cls(*(record[name] for name in names), record.get("python", ""))


def minor(version: str) -> str:
    """`3.11` of `3.11.7`."""
    return ".".join(version.split(".")[:2])


RUNNING = minor(".".join(map(str, sys.version_info)))


def changes(
    then: Inputs,
    root: Path,
    ledger: Mapping[str, str],
    locked: Mapping[str, frozenset[str]] | None,
    python: str = RUNNING,
) -> list[str]:
    """What differs today, each as a phrase such as `measured.masks changed`; empty if nothing does.

    Libraries are compared with the lock, not with what is installed: that is made from it.

    Args:
        ledger: ids and today's digests of their entries.
        locked: library names and the versions that the lock allows; None if nobody knows.
        python: minor version of the Python that would execute; empty if nobody knows.
    """
    found = []
    for kind, name in ((then.modules, module_name), (then.data, str)):
        for path, digest in sorted(kind.items()):
            today = file_digest(root / path)
            if today != digest:
                found.append(f"{name(path)} {'changed' if today else 'is gone'}")
    for id, digest in sorted(then.ledger.items()):
        if ledger.get(id) != digest:
            found.append(f"{ENTRY} {id} {'changed' if id in ledger else 'is gone'}")
    for library, version in sorted(then.libraries.items()) if locked is not None else ():
        versions = locked.get(library, frozenset())
        if version not in versions:
            now = " or ".join(sorted(versions)) or "no longer locked"
            found.append(f"{library} was {version}, is {now}")
    if then.python and python and then.python != python:
        found.append(f"Python was {then.python}, is {python}")
    return found


def file_digest(path: Path) -> str | None:
    """SHA-256 of a file with LF line endings, so that a checkout's line endings do not matter."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def module_name(path: str) -> str:
    """`measured.masks` for `code/measured/masks.py`."""
    name = path.removeprefix(f"{CODE}/").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def locked_versions(root: Path) -> dict[str, frozenset[str]]:
    """Library → versions that the lock file names (more than one where markers choose).

    A folder without a lock file has only what is installed.
    """
    try:
        text = (root / LOCK).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Installed()
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(library_name(name), set()).add(version)
    return {name: frozenset(versions) for name, versions in found.items()}


class Installed(dict):
    """Looks a version up in the environment only when it is asked for: that is slow."""

    def get(self, name, default=None):
        from importlib import metadata  # slow to import

        try:
            return frozenset({metadata.version(name)})
        except metadata.PackageNotFoundError:
            return default

    def __contains__(self, name):
        return self.get(name) is not None


def library_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Recorder:
    """Notes from now on which files of `root` are read and which modules are imported.

    Reads are seen through Python's audit hook, which cannot be taken off again: one recorder a
    process. Files opened by C++ code (TensorFlow's own readers) are not seen; `measured` opens its
    data in Python.
    """

    def __init__(self, root: Path):
        self.root = root.resolve()
        self._code = {path: file_digest(path) for path in (self.root / CODE).rglob("*.py")}
        self._read: dict[str, tuple] = {}  # absolute path → what the file was when it was opened
        self._earlier: dict[str, tuple] = {}  # the same of runs before `again`
        self._digests: dict[tuple, str | None] = {}
        self._owners: Mapping[str, Any] = {}
        self._versions: dict[str, str] = {}
        sys.addaudithook(self._audit)

    def again(self) -> None:
        """The same process runs its document once more: what is opened now is read anew.

        What only earlier runs opened stays noted, since modules may have kept it.
        """
        self._earlier = {**self._earlier, **self._read}
        self._read = {}

    def _audit(self, event: str, arguments: tuple) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path, _, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == 0:
            # Made absolute now: a cell may change the working folder.
            path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (keeps symlinks)
            if path not in self._read:
                self._read[path] = _state(path)

    def modules(self) -> dict[str, str]:
        """Our own modules that are imported now, each with its hash."""
        found = {}
        for module in list(sys.modules.values()):
            path = self._inside(getattr(module, "__file__", None) or "")
            if path and path.startswith(f"{CODE}/"):
                digest = self._digest(path)
                then = self._code.get(self.root / path, digest)
                found[path] = digest if digest == then else MOVED
        return dict(sorted(found.items()))

    def data(self) -> dict[str, str]:
        """Files of the project that were read and still exist, each with its hash."""
        noted = {**self._earlier, **self._read}
        read = {self._inside(path): path for path in noted}
        return {
            path: self._digest(path) if noted[read[path]] == _state(read[path]) else MOVED
            for path in sorted(set(read) - {None})
            if not path.startswith(tuple(f"{name}/" for name in NOT_DATA))
            and not (path.startswith(f"{CODE}/") and path.endswith(".py"))
            and path not in NOT_DATA_FILES
            and not path.endswith((".qmd", ".pyc"))
            and (self.root / path).is_file()
        }

    def libraries(self, locked: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Locked libraries that are imported, with the versions that really ran.

        Without those that every kernel needs for itself, whatever the chapter does.
        """
        from importlib import metadata  # slow to import, and no chapter's own

        if not self._owners:
            self._owners = metadata.packages_distributions()
        tops = {name.partition(".")[0] for name in list(sys.modules)}
        names = {library_name(owner) for top in tops for owner in self._owners.get(top, ())}
        names = (names - _kernel_itself() | ALWAYS) & _named(locked, names | ALWAYS)
        for name in names - set(self._versions):
            self._versions[name] = metadata.version(name)
        return {name: self._versions[name] for name in sorted(names)}

    def _digest(self, path: str) -> str | None:
        """Hash of a file of the project, read again only when it looks changed."""
        key = (path, _state(str(self.root / path)))
        if key not in self._digests:
            self._digests[key] = file_digest(self.root / path)
        return self._digests[key]

    def _inside(self, path: str) -> str | None:
        """The path relative to the project, or None for a file elsewhere.

        A link inside the project counts as a file of the project, wherever it leads.
        """
        for absolute in (os.path.abspath(path), os.path.realpath(path)):  # noqa: PTH100
            if absolute.startswith(f"{self.root}{os.sep}"):
                return Path(absolute).relative_to(self.root).as_posix()
        return None


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 (called at every open)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _named(locked: Mapping[str, frozenset[str]], names: Iterable[str]) -> set[str]:
    return {name for name in names if name in locked}


@cache
def _kernel_itself() -> frozenset[str]:
    """The libraries without which no kernel starts: ipykernel, and what that needs."""
    from importlib import metadata

    found, left = set(), ["ipykernel"]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # needed on another system only
        for line in needed:
            requirement, _, marker = line.partition(";")
            if "extra ==" not in marker:
                left.append(library_name(re.match(r"[\w.-]+", requirement)[0]))
    return frozenset(found)


def digests(entries: Iterable) -> dict[str, str]:
    """id → digest of ledger entries."""
    return {entry.id: entry.digest() for entry in entries}
