"""What a diagram says: the texts of an SVG file, each with its line and the entry it rests on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat


@dataclass(frozen=True)
class Label:
    """A text of a diagram: what it says, on which line, and which ledger entry it says it owes."""

    text: str
    line: int
    claim: str = ""


def labels_of(path: Path) -> Iterator[Label]:
    """Texts of an SVG file: text, title, desc and aria-label. Raises ValueError for broken XML."""
    found: list[Label] = []
    open_: list[list] = []  # of texts: [tag, parts, line, claim]
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        tag, line = tag.rpartition(":")[2], parser.CurrentLineNumber
        if "aria-label" in attributes:
            found.append(Label(attributes["aria-label"], line))
        if tag in ("text", "title", "desc"):
            open_.append([tag, [], line, attributes.get("data-claim", "")])
        elif open_ and attributes.get("data-claim"):
            open_[-1][3] = attributes["data-claim"]

    def end(tag: str) -> None:
        if open_ and open_[-1][0] == tag.rpartition(":")[2]:
            _, parts, line, claim = open_.pop()
            found.append(Label("".join(parts), line, claim))

    def data(text: str) -> None:
        if open_:
            open_[-1][1].append(text)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = data
    try:
        parser.Parse(path.read_bytes(), True)
    except expat.ExpatError as error:
        raise ValueError(
            f"{error.lineno}: is not XML: {expat.errors.messages[error.code]}"
        ) from None
    yield from found
