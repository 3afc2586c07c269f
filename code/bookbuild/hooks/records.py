"""Put the records of a kernel that Quarto ran beside what Quarto froze.

Quarto writes html.json and the figures; the kernel left its record in `.book/quarto/`. Both are a
freeze like the build's own, if they are of one run: the same text, the same cells to the end, the
same numbers said. What is not certain is left alone, and the chapter stays stale.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bookbuild.freeze import RESULTS, Frozen, numbers_of, sealed
from bookbuild.hooks.files import replace
from bookbuild.hooks.state import Book, title_is_known
from bookbuild.source import Cell, Source
from bookbuild.weave import said
from ledger.recording import FORMAT, digest_of_code, record_path

CLAIM = re.compile(r'\{\.claim data-claim="([^"]+)"')
HOLE = None  # what an execution puts in; everything else is the source's own text


def adopt(book: Book, path: str) -> str | None:
    """Make the freeze of a chapter whole, where a record of Quarto's run of it is waiting.

    Returns why it could not be done; None if it was, or if there is no record.
    """
    place = record_path(book.root, path)
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return "the kernel's record is not readable"
    finally:
        place.unlink(missing_ok=True)  # of use once: the next run leaves its own
    source, frozen = book.source(path), book.frozen(path)
    if reason := why_not(source, frozen, record, book):
        return reason
    whole = joined(source, frozen, record, book)
    replace(book.place(path), whole)
    return None


def why_not(
    source: Source, frozen: Frozen | None, record: Mapping[str, Any], book: Book
) -> str | None:
    """Why a record does not belong to what Quarto froze, or None."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return "the kernel's record is in another format"
    if record["document"] != source.path:
        return "the kernel's record is of another document"
    if frozen is None or f"{RESULTS}/html.json" not in frozen.files:
        return "Quarto froze nothing"
    try:
        hash, markdown = frozen.hash, frozen.markdown
    except (ValueError, LookupError, TypeError, RecursionError):
        return "its html.json is not readable"
    if record["text"] != source.md5 or hash != source.md5:
        return "its text changed while it ran"
    if not record["early"] or not _begins_with_imports(source):
        return "its first cell must begin with imports, and import ledger before our other modules"
    if record["foreign"]:
        return f"it imported {record['foreign'][0]} from another folder than this book's"
    cells = [cell for cell in source.cells if cell.options.get("eval") is not False and cell.code]
    if record["ran"] != [digest_of_code(cell.code) for cell in cells]:
        return "the kernel's record is not of one run of all its cells"
    if not record["ledger"].items() <= book.entries.items():
        return "ledger.toml was edited while it ran"
    if record["drifts"] or not set(CLAIM.findall(markdown)) <= set(record["said"]):
        return "it says numbers that the kernel's record lacks"
    if not title_is_known(source):
        return "its title is not one plain line of the front matter"
    if missing := [name for name in _figures_shown(markdown) if name not in frozen.figures]:
        return f"its figure {missing[0]} is missing"
    return None


def joined(source: Source, frozen: Frozen, record: Mapping[str, Any], book: Book) -> Frozen:
    """The whole freeze: Quarto's html.json as it is, the figures that it shows, the record."""
    shown = _figures_shown(frozen.markdown)
    figures = {name: content for name, content in frozen.figures.items() if name in shown}
    names = ("modules", "data", "ledger", "libraries", "python")
    origin = {"settings": book.settings} | {name: record[name] for name in names}
    cells, inlines = places(source, frozen.markdown)
    numbers = numbers_of(source, record, book.ledger)
    return sealed(frozen.files[f"{RESULTS}/html.json"], figures, numbers, origin, cells, inlines)


def _figures_shown(markdown: str) -> set[str]:
    return set(re.findall(r"_files/figure-html/([^)\s\"']+)", markdown))


def _begins_with_imports(source: Source) -> bool:
    """Whether nothing but imports comes before the import of the ledger."""
    for cell in source.cells:
        if cell.options.get("eval") is False:
            continue
        try:
            statements = ast.parse(cell.code).body
        except SyntaxError:
            return False
        for statement in statements:
            names = [alias.name for alias in getattr(statement, "names", ())]
            module = getattr(statement, "module", None) or ""
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                return False
            if "ledger" in {name.partition(".")[0] for name in [module, *names]}:
                return True
        return False
    return False


def places(source: Source, markdown: str) -> tuple[list, list]:
    """Where in Quarto's Markdown each cell and each inline value stands, as the freeze notes it.

    The spans are None where more than one reading is possible: then an edit of prose executes.
    """
    parts: list[str | None] = []
    holes: list[dict[str, Any]] = []
    cells, inlines = [], []
    for piece in source.pieces:
        if isinstance(piece, Cell):
            cells.append({"label": piece.label, "key": piece.key, "span": None})
            holes.append(cells[-1])
            parts += [HOLE, "\n"]
            continue
        position = 0
        for inline in piece.inlines:
            place = {"after": len(cells), "expression": inline.expression, "span": None}
            inlines.append(place)
            holes.append(place)
            parts += [piece.text[position : inline.start], HOLE]
            position = inline.end
        parts.append(f"{piece.text[position:]}\n\n")
    spans = only_reading(parts, markdown, [_fits(hole) for hole in holes])
    if spans is not None:
        for hole, span in zip(holes, spans, strict=True):
            hole["span"] = list(span)
    return cells, inlines


def _fits(hole: Mapping[str, Any]) -> Callable[[str], bool]:
    """What a text must be to stand in a hole: a cell's own div, the claim of a `say`, a value."""
    if "label" in hole:
        head = rf"::: \{{#(cell-)?{re.escape(hole['label'])} \.cell"
        div = re.compile(rf"({head}.*:::\n\n)?", re.DOTALL)
        return lambda text: div.fullmatch(text) is not None
    if id := said(hole["expression"]):
        attributes = rf'\{{\.claim data-claim="{re.escape(id)}" title="[^"]*"\}}'
        claim = re.compile(rf"\[((?!\{{\.claim).)*\]{attributes}", re.DOTALL)
        return lambda text: claim.fullmatch(text) is not None
    return lambda text: "\n\n" not in text


def only_reading(
    parts: Sequence[str | None], text: str, fits: Sequence[Callable[[str], bool]]
) -> list[tuple[int, int]] | None:
    """The spans of the holes in the one way in which `text` consists of `parts`, or None.

    fits: for each hole, whether a text can stand in it.
    """
    # Texts that stand next to each other are one; between two holes there may be an empty one.
    literals, holes = [""], 0
    for part in parts:
        if part is HOLE:
            literals.append("")
            holes += 1
        else:
            literals[-1] += part
    if not text.startswith(literals[0]):
        return None
    # Each way is the list of places where its holes end and begin; ways that meet are two.
    ways: dict[int, list[tuple[int, int]] | None] = {len(literals[0]): []}
    for number in range(holes):
        literal, last = literals[number + 1], number == holes - 1
        reached: dict[int, list[tuple[int, int]] | None] = {}
        for start, spans in ways.items():
            for end in _ends(text, start, literal, last):
                if fits[number](text[start:end]):
                    after = end + len(literal)
                    several = after in reached or spans is None
                    reached[after] = None if several else [*spans, (start, end)]
        ways = reached
        if len(ways) > 100:
            return None
    return ways.get(len(text)) if holes or literals[0] == text else None


def _ends(text: str, start: int, literal: str, last: bool) -> Iterable[int]:
    """The places at which a hole that begins at `start` can end, before `literal`."""
    if last:
        end = len(text) - len(literal)
        return [end] if end >= start and text.endswith(literal) else []
    if not literal:
        return range(start, len(text) + 1)
    found, at = [], text.find(literal, start)
    while at >= 0:
        found.append(at)
        at = text.find(literal, at + 1)
    return found
