"""After Quarto rendered: put the records of its kernels in place, and read the pages.

Quarto takes a reference or a citation that leads nowhere for a warning; here it is an error. So is
a number of the ledger that a page lacks or shows otherwise, and a chapter that Quarto executed
without a record of what its numbers come from.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

if __name__ == "__main__":  # called by file name, before anything is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bookbuild import freeze as freezing
from bookbuild.claims_check import wrong_claims
from bookbuild.freeze import why_unusable
from bookbuild.hooks.files import replace
from bookbuild.hooks.page import Page, read_page
from bookbuild.hooks.records import adopt
from bookbuild.hooks.state import CONFIG, Book, Call
from bookbuild.problems import BookError, Problem


def post_render(call: Call) -> None:
    """Join records and freezes, then check the pages. Raises BookError with all that is wrong."""
    book = Book(call)
    pages = dict(_pages(call))
    untraced = [
        Problem(path, 0, f"{reason}; execute it again: book build, or quarto render {path}")
        for path in pages
        if (reason := _without_record(book, path))
    ]
    problems = list(untraced)
    for path, page in pages.items():
        found = read_page((book.root / page).read_text(encoding="utf-8", errors="replace"))
        problems += _dead_ends(book, path, found)
    if not untraced:
        problems += _claims(book, set(pages.values()))
    if problems:
        raise BookError(problems)


def _pages(call: Call) -> Iterator[tuple[str, str]]:
    """(chapter, page), both relative to the project, of the pages that Quarto has just written."""
    output = _output(call)
    for page in call.files("OUTPUT"):
        place = (call.root / page).resolve()
        if place.suffix == ".html" and place.is_file() and place.is_relative_to(output):
            inside = PurePosixPath(place.relative_to(output).as_posix())
            yield str(inside.with_suffix(".qmd")), place.relative_to(call.root).as_posix()


def _output(call: Call) -> Path:
    return (call.root / (call.environ.get("QUARTO_PROJECT_OUTPUT_DIR") or "")).resolve()


def _without_record(book: Book, path: str) -> str | None:
    """Why the numbers on a chapter's page cannot be traced to what they come from, or None."""
    if not (book.root / path).is_file() or not book.source(path).executable:
        return None
    return adopt(book, path) or why_unusable(book.frozen(path))


def _dead_ends(book: Book, path: str, page: Page) -> Iterator[Problem]:
    text = _text(book.root / path)
    for id in dict.fromkeys(page.unresolved):
        # A page rendered alone knows no other one's labels; the whole book does.
        if book.call.whole or not _is_a_label_elsewhere(book.root, path, id):
            yield Problem(path, _line(text, f"@{id}"), f"@{id} leads nowhere; no label is {id}")
    for key in dict.fromkeys(page.uncited):
        yield Problem(path, _line(text, f"@{key}"), f"@{key} is cited, but in no bibliography")


def _claims(book: Book, pages: set[str]) -> Iterator[Problem]:
    """What the pages just rendered state against the ledger. Only freezes that hold are asked."""
    output = _output(book.call)
    with tempfile.TemporaryDirectory(prefix="book-claims-") as folder:
        for path in book.freezes():
            frozen = book.frozen(path)
            if why_unusable(frozen) is None:
                replace(Path(folder) / freezing.folder_of(path), frozen)
        for page, line, text in wrong_claims(book.root, output, Path(folder) / freezing.FREEZE):
            place = (output / page).relative_to(book.root).as_posix()
            if place in pages:
                yield Problem(place, line, text)
            elif page.startswith(freezing.FREEZE):
                yield Problem(page, line, text)


def _is_a_label_elsewhere(root: Path, path: str, id: str) -> bool:
    label = re.compile(rf"(#|\blabel: *){re.escape(id)}(?![\w-])")
    others = [*root.glob("*.qmd"), *root.glob("*/*.qmd")]
    return any(label.search(_text(other)) for other in others if other != root / path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""


def _line(text: str, needle: str) -> int:
    """The line of the first place that is not followed by more of a word, or 0."""
    found = re.search(rf"{re.escape(needle)}(?![\w-]*\w)", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def main(environ: Mapping[str, str], folder: Path, err: Any) -> int:
    """0, or 1 with what is wrong on `err`, which makes Quarto fail."""
    try:
        post_render(Call(Path(environ.get("QUARTO_PROJECT_DIR") or folder).resolve(), environ))
    except BookError as error:
        print(error, file=err)
        return 1
    except OSError as error:
        print(f"{error.filename or CONFIG}: {error.strerror or error}", file=err)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ, Path.cwd(), sys.stderr))
