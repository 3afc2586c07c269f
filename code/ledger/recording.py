"""Keep the record of a run: what a chapter's kernel checked, and what it was computed from.

The book's own build asks for the record at the end of a chapter. Quarto does not, and its kernel
may live on; so under Quarto the first import of `ledger` begins to record, and the record is
written after every cell, to `.book/quarto/`, where the project's hooks find it. Elsewhere, as in a
reader's notebook, importing does nothing.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from ledger import session
from ledger.entries import LEDGER
from ledger.environment import environment
from ledger.inputs import CODE, RUNNING, Recorder, digests, locked_versions

RECORDS = ".book/quarto"
FORMAT = 1
MARK = "_ledger_records"  # in the namespace of cells: gone when Quarto begins the document again


def record(recorder: Recorder, root: Path) -> dict[str, Any]:
    """What the kernel's document was computed from until now, and what it checked."""
    book = session.session() if (root / LEDGER).is_file() else None
    used = {*book.checked, *book.said} if book else set()
    return {
        "modules": recorder.modules(),
        "data": recorder.data(),
        "ledger": digests(book.ledger[id] for id in sorted(used)) if book else {},
        "libraries": recorder.libraries(locked_versions(root)),
        "python": RUNNING,
        "environment": _environment(),
        "checked": book.checked if book else {},
        "said": sorted(book.said) if book else [],
        "drifts": [vars(drift) for drift in book.drifts] if book else [],
    }


def _environment() -> dict[str, Any]:
    already = "threadpoolctl" in sys.modules
    found = environment()
    if not already:  # else it would be taken for a library of the chapter's
        sys.modules.pop("threadpoolctl", None)
    return found


def record_path(root: Path, document: str) -> Path:
    """Where the record of a document lies: `.book/quarto/chapters/masking.json`."""
    return root / RECORDS / f"{document.removesuffix('.qmd')}.json"


def begin_under_quarto() -> None:
    """Record from now on, if this process is a kernel that Quarto started for a document."""
    if "QUARTO_DOCUMENT_FILE" not in os.environ or "QUARTO_PROJECT_ROOT" not in os.environ:
        return
    if "bookbuild.kernel" in sys.modules or "IPython" not in sys.modules:
        return  # the book's own build, which asks for the record; or no kernel
    shell = sys.modules["IPython"].get_ipython()
    root = Path(os.environ["QUARTO_PROJECT_ROOT"]).resolve()
    path = Path(os.environ.get("QUARTO_DOCUMENT_PATH", "."), os.environ["QUARTO_DOCUMENT_FILE"])
    if shell is None or not (root / path).resolve().is_relative_to(root):
        return
    _Record(shell, root, (root / path).resolve().relative_to(root).as_posix()).begin()


class _Record:
    """The record of one document, kept on disk while its kernel runs it."""

    def __init__(self, shell: Any, root: Path, document: str):
        self.shell, self.root, self.document = shell, root, document
        # What such a module read when it was imported has not been seen. (Cells that ran before
        # are missing in `ran`.)
        self.early = not _ours_imported(root)
        self.recorder = Recorder(root)
        self.ran: list[str] = []
        self.text: str | None = None

    def begin(self) -> None:
        self._mark()
        self.shell.events.register("pre_run_cell", self._before_cell)
        self.shell.events.register("post_run_cell", self._after_cell)

    def _mark(self) -> None:
        self.shell.user_ns[MARK] = True
        self.text = digest_of_text(self.root / self.document)
        self.ran = []

    def _before_cell(self, info: Any) -> None:
        if MARK not in self.shell.user_ns:  # a kernel that lives on runs its document again
            session._session = None
            self.recorder.again()
            self._mark()

    def _after_cell(self, result: Any) -> None:
        if result.info.store_history and result.info.raw_cell.strip():
            self.ran.append(digest_of_code(result.info.raw_cell))
        self._write()

    def _write(self) -> None:
        content = {
            "format": FORMAT,
            "document": self.document,
            "text": self.text,
            "early": self.early,
            "ran": self.ran,
            "foreign": _foreign(self.root),
            **record(self.recorder, self.root),
        }
        path = record_path(self.root, self.document)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(path)


def digest_of_code(code: str) -> str:
    """Hash of a cell's code; blank lines around it do not matter."""
    lines = [line.rstrip() for line in code.strip("\n").split("\n")]
    return hashlib.sha256("\n".join(lines).strip("\n").encode()).hexdigest()


def digest_of_text(path: Path) -> str | None:
    """Hash of a document as Quarto takes it: MD5, with LF line endings."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    return hashlib.md5(text.replace("\r\n", "\n").encode(), usedforsecurity=False).hexdigest()


def _foreign(root: Path) -> list[str]:
    """Packages that the project has, but that were imported from somewhere else."""
    own = {path.name for path in (root / CODE).glob("*") if path.is_dir()}
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in own and file and not Path(file).resolve().is_relative_to(root):
            found.add(name)
    return sorted(found)


def _ours_imported(root: Path) -> bool:
    """Whether a module of the project, other than this package, is imported already."""
    here = Path(__file__).resolve().parent
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = [Path(file).resolve() for file in files if file]
    code = (root / CODE).resolve()
    return any(path.is_relative_to(code) and not path.is_relative_to(here) for path in paths)
