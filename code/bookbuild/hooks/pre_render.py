"""Before Quarto renders: let it find frozen just what is still true.

Of the files that Quarto is about to render, a stale chapter loses what Quarto would show of it, so
that Quarto executes it; one of which only prose changed gets the new text around the old outputs.
Numbers that the ledger no longer expects stop the render: executing would only give them again.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # called by file name, before anything is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bookbuild.freeze import Frozen, number_of
from bookbuild.hooks.files import drop, replace
from bookbuild.hooks.records import adopt
from bookbuild.hooks.state import CONFIG, Book, Call, title_is_known
from bookbuild.problems import BookError, Problem
from bookbuild.source import Source
from bookbuild.stale import Verdict, judge
from ledger.entries import LEDGER, line_of
from ledger.inputs import ENTRY
from ledger.values import Value, deviation, show


def pre_render(call: Call) -> Iterator[str]:
    """Bring the freezes of the files to be rendered in order; a line for each that was changed.

    Raises BookError, before any file is touched, where the ledger moved away from frozen numbers.
    """
    book = Book(call)
    paths = [path for path in call.files("INPUT") if path.endswith(".qmd")]
    paths = [path for path in paths if (book.root / path).is_file()]
    left: dict[str, str | None] = {}
    problems: list[Problem] = []
    verdicts = []
    for path in paths:
        try:
            left[path] = adopt(book, path)  # where a failed render left it
            source, frozen = book.source(path), book.frozen(path)
        except BookError as error:
            problems += error.problems
            continue
        verdicts.append(verdict_on(book, source, frozen))
        problems += moved(book, source, frozen)
    if problems:
        raise BookError(problems)
    for verdict in verdicts:
        path = verdict.source.path
        if verdict.state == "prose":
            replace(book.place(path), verdict.frozen)
            yield f"{path}: its prose changed; the frozen outputs stay"
        elif verdict.state == "stale" and book.place(path).exists():
            drop(book.place(path))
            yield f"{path}: {left[path] or verdict.reason}; Quarto executes it"


def verdict_on(book: Book, source: Source, frozen: Frozen | None) -> Verdict:
    verdict = judge(source, frozen, book.settings, book.changed)
    if verdict.state == "prose" and not title_is_known(source):
        return Verdict(source, "stale", "its title is not one plain line of the front matter")
    return verdict


def moved(book: Book, source: Source, frozen: Frozen | None) -> Iterator[Problem]:
    """Frozen numbers that the ledger does not expect, where nothing else of the chapter changed."""
    still = judge(source, frozen, book.settings, lambda then: _but_ledger(book, then))
    if frozen is None or still.state not in ("fresh", "prose"):
        return  # another run may give other numbers, and its kernel compares them
    text = (book.root / LEDGER).read_text(encoding="utf-8") if book.ledger else ""
    for row in frozen.numbers["numbers"]:
        entry, got = book.ledger.get(row["id"]), number_of(row["value"])
        if entry and not deviation(entry.value, got) <= entry.tolerance:
            yield Problem(
                LEDGER,
                line_of(text, entry.id),
                f"[{entry.id}] expects {_short(entry.value)} {entry.band}, but {source.path} "
                f"computed {_short(got)} from what has not changed since; mend the entry, or if "
                f'{_short(got)} is right: book accept {entry.id} --reason "…"',
            )


def _but_ledger(book: Book, then) -> list[str]:
    return [reason for reason in book.changed(then) if not reason.startswith(f"{ENTRY} ")]


def _short(value: Value) -> str:
    text = show(value)
    return text if len(text) <= 60 else f"{text[:40]} … {text[-15:]}"


def main(environ: Mapping[str, str], folder: Path, err: Any) -> int:
    """0, or 1 with the reasons on `err`, which stops Quarto."""
    call = Call(Path(environ.get("QUARTO_PROJECT_DIR") or folder).resolve(), environ)
    try:
        for line in pre_render(call):
            if not call.quiet:
                print(line, file=err)
    except BookError as error:
        print(error, file=err)
        return 1
    except OSError as error:
        print(f"{error.filename or CONFIG}: {error.strerror or error}", file=err)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ, Path.cwd(), sys.stderr))
