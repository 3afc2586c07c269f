"""What both hooks know of the book: its files as Quarto names them, its ledger, its freezes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from bookbuild import freeze as freezing
from bookbuild.freeze import Frozen
from bookbuild.problems import BookError, Problem
from bookbuild.source import Source, skim
from bookbuild.stale import settings_in
from ledger.entries import LEDGER, Entry, LedgerError, load_ledger
from ledger.inputs import LOCK, Inputs, changes, digests, locked_versions, minor

CONFIG = "_quarto.yml"


@dataclass(frozen=True)
class Call:
    """How Quarto called a hook: the project's folder, and the variables it set."""

    root: Path
    environ: Mapping[str, str]

    @property
    def whole(self) -> bool:
        """Whether all files are rendered; a single file and a preview give but some."""
        return self.environ.get("QUARTO_PROJECT_RENDER_ALL") == "1"

    @property
    def quiet(self) -> bool:
        return self.environ.get("QUARTO_PROJECT_SCRIPT_QUIET") == "1"

    def files(self, kind: str) -> list[str]:
        """Paths, relative to the project, of INPUT or OUTPUT files. Long lists come in a file."""
        name = f"QUARTO_PROJECT_{kind}_FILES"
        text = self.environ.get(name)
        listed = self.environ.get(f"QUARTO_USE_FILE_FOR_PROJECT_{kind}_FILES")
        if text is None and listed:
            text = (self.root / listed).read_text(encoding="utf-8")
        paths = [line.strip().replace("\\", "/") for line in (text or "").splitlines()]
        return [path for path in paths if path and ".." not in PurePosixPath(path).parts]


@dataclass(frozen=True)
class Book:
    """The book as it lies there."""

    call: Call

    @property
    def root(self) -> Path:
        return self.call.root

    @cached_property
    def ledger(self) -> dict[str, Entry]:
        try:
            return load_ledger(self.root / LEDGER)
        except LedgerError as error:
            lines = [line.split(":", 2) for line in str(error).splitlines()]
            raise BookError(
                [Problem(path, int(no), text.strip()) for path, no, text in lines]
            ) from None

    @cached_property
    def entries(self) -> dict[str, str]:
        return digests(self.ledger.values())

    @cached_property
    def settings(self) -> dict[str, str]:
        return settings_in(self.root, (self.root / CONFIG).read_text(encoding="utf-8"))

    @cached_property
    def locked(self) -> dict[str, frozenset[str]] | None:
        # What is installed cannot stand in for a lock here: a hook sees no installed library.
        return locked_versions(self.root) if (self.root / LOCK).is_file() else None

    @cached_property
    def python(self) -> str:
        """Minor version of the Python of the book's environment, or "" where there is none.

        The hook's own Python may be another one: whichever was found first.
        """
        told = self.call.environ.get("QUARTO_PYTHON", "")
        active = self.call.environ.get("VIRTUAL_ENV", "")
        folders = [Path(told).parent.parent] if told else []
        folders += [Path(active)] if active and not told else []
        for folder in [*folders, *([] if told else [self.root / ".venv"])]:
            try:
                text = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
            except OSError:
                continue
            if found := re.search(r"^version(?:_info)? *= *([\d.]+)", text, re.MULTILINE):
                return minor(found[1])
        return ""

    def changed(self, then: Inputs) -> list[str]:
        return changes(then, self.root, self.entries, self.locked, self.python)

    def source(self, path: str) -> Source:
        """Raises BookError for a file that is not UTF-8."""
        try:
            text = (self.root / path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise BookError(Problem(path, 0, f"is not UTF-8: {error.reason}")) from None
        return skim(path, text.replace("\r\n", "\n"))

    def place(self, path: str) -> Path:
        return self.root / freezing.folder_of(path)

    def frozen(self, path: str) -> Frozen | None:
        return freezing.read(self.place(path))

    def freezes(self) -> list[str]:
        """The chapters with anything in their freeze."""
        top = self.root / freezing.FREEZE
        folders = sorted(top.glob(f"**/{freezing.RESULTS}"))
        return [f"{folder.parent.relative_to(top).as_posix()}.qmd" for folder in folders]


def title_is_known(source: Source) -> bool:
    """Whether `source.title` is what a YAML reader would say."""
    front = source.text.partition("\n---")[0] if source.text.startswith("---") else ""
    return "title" in source.meta or not re.search(r"^title\b", front, re.MULTILINE)
