"""Run the pieces of a chapter in its kernel, and say of one that failed on which line it did."""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from bookbuild.kernel_client import CellFailed, evaluate
from bookbuild.outputs import UnknownOutput, cell_markdown, inline_markdown
from bookbuild.run import PieceResult
from bookbuild.source import Cell, Inline, Prose, Source

ANSI = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(r"Cell In\[(\d+)\], line (\d+)")
CHAINED = "During handling of the above exception|was the direct cause of the following exception"


@dataclass
class Collected:
    """What a chapter has shown so far."""

    pieces: list[PieceResult] = field(default_factory=list)
    figures: dict[str, bytes] = field(default_factory=dict)


async def run_inlines(client: NotebookClient, piece: Prose, root: Path) -> PieceResult:
    """Evaluate what stands between words. Raises CellFailed with the line of the expression."""
    if not piece.inlines:
        return PieceResult()
    try:
        data = await evaluate(client, [inline.expression for inline in piece.inlines])
    except CellFailed as error:
        raise CellFailed(str(error), _line_of(piece, str(error))) from None
    values = []
    for inline, shown in zip(piece.inlines, data, strict=True):
        try:
            values.append(inline_markdown(shown))
            if found := _unrepeatable("\n".join(map(str, shown.values())), root):
                raise UnknownOutput(found)
        except UnknownOutput as error:
            text = f"`{inline.expression}` {error}"
            raise CellFailed(text, _line_in(piece, inline)) from None
    return PieceResult(inlines=tuple(values))


def _unrepeatable(text: str, root: Path) -> str | None:
    """What in an output names this machine or this run, as a message."""
    for folder in (str(root), str(Path.home())):
        if folder != "/" and re.search(rf"{re.escape(folder)}(?![\w-])", text):
            return f"prints {folder}, a folder of this machine; print what is the same everywhere"
    if found := re.search(r"\bat 0x[0-9a-f]{6,}|\bipykernel_\d+", text):
        return f"prints {found.group()!r}, which differs from run to run; print what stays the same"
    return None


def _line_of(piece: Prose, message: str) -> int:
    for inline in piece.inlines:
        if message.startswith(f"`{inline.expression}`"):
            return _line_in(piece, inline)
    return piece.line


def _line_in(piece: Prose, inline: Inline) -> int:
    return piece.line + piece.text.count("\n", 0, inline.start)


async def run_cell(
    client: NotebookClient,
    cell: Cell,
    count: int,
    source: Source,
    root: Path,
    collected: Collected,
) -> None:
    """Run a cell and add what it showed to `collected`. Raises CellFailed, and UnknownOutput for
    what cannot be frozen.
    """
    notebook_cell = nbformat.v4.new_code_cell(cell.code)
    if cell.options.get("eval") is not False:
        if cell.options.get("error"):
            notebook_cell.metadata["tags"] = ["raises-exception"]
        client.nb.cells = [notebook_cell]
        try:
            await client.async_execute_cell(notebook_cell, 0, store_history=True)
        except CellExecutionError as error:
            raise CellFailed(_what_was_raised(error), _raised_at(cell, error)) from None
    files = f"{Path(source.path).stem}_files"
    made = cell_markdown(cell, notebook_cell.outputs, count, files)
    if found := _unrepeatable(made.text.replace(cell.code, "", 1), root):
        raise UnknownOutput(found)
    for name, content in made.figures.items():
        text = content if name.endswith(".svg") else base64.b64decode(content)
        collected.figures[name] = text.encode() if isinstance(text, str) else text
    collected.pieces.append(PieceResult(markdown=made.text))


def _what_was_raised(error: CellExecutionError) -> str:
    value = ANSI.sub("", error.evalue).strip()
    return f"{error.ename}: {value}" if value else error.ename


def _raised_at(cell: Cell, error: CellExecutionError) -> int:
    """The line of the chapter on which the cell's own code was when it raised."""
    # Of chained errors the last stopped the cell; functions of earlier cells have lower numbers.
    text = re.split(CHAINED, ANSI.sub("", error.traceback))[-1]
    frames = [tuple(map(int, frame)) for frame in FRAME.findall(text)]
    if not frames:
        return cell.line
    newest = max(number for number, _ in frames)
    line = next(line for number, line in frames if number == newest)
    return cell.code_line + line - 1
