"""What a rendered page states: its verified numbers and its formulas, read from the HTML alone."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

OUTSIDE = {"nav", "script", "style", "head"}  # contents and menus repeat headings
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
CODE = re.compile(r"<pre\b.*?</pre>", re.S)
# Numbers in TeX: written anew here, so that a mistake of claims.lua is found.
TEX = {"−": "-", "×": r"\times ", "±": r"\pm ", "·": r"\cdot ", "≈": r"\approx ", "%": r"\%",
       "#": r"\#", "&": r"\&", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
       "\\": r"\backslash ", "^": r"\hat{}", "~": r"\sim ", "\u00a0": r"\,",
       "\u202f": r"\,"}  # fmt: skip
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
LETTERS = "A-Za-zµμ"


@dataclass(frozen=True)
class Claim:
    """A verified number on a page, and the line of its HTML on which it begins."""

    line: int
    ids: tuple[str, ...]
    text: str
    title: str
    kind: str  # claim, formula, worded
    over: str = ""
    at: str = ""
    repeated: bool = False  # in the contents or a menu


@dataclass
class Page:
    """What a page states."""

    claims: list[Claim] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)  # as TeX
    rows: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # of the table of numbers


def read_page(html: str) -> Page:
    """What a page states. Code, which is most of its tags, is passed over: it claims nothing."""
    html = CODE.sub(lambda block: "\n" * block[0].count("\n"), html)
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page


class _Reader(HTMLParser):
    """Collects claims, formulas and the rows of the table of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.stack: list[tuple[str, str, int, dict[str, str], int]] = []
        self.text: list[str] = []  # everything so far that is text
        self.length = 0
        self.outside = 0
        self.drawn = 0  # inside MathML, of which only the TeX beside it is read
        self.written = 0
        self.row: tuple[str, int, list[str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            if tag == "br":
                self._add(" ")
            return
        attributes = {name: value or "" for name, value in attrs}
        classes = attributes.get("class", "").split()
        self.outside += tag in OUTSIDE
        self.drawn += tag == "math"
        self.written += tag == "annotation"
        what = ""
        if "claim-formula" in classes or "data-claims" in attributes:
            what = "formula"
        elif "worded" in classes and "data-claim" in attributes:
            what = "worded"
        elif "claim" in classes or "data-claim" in attributes:
            what = "claim"
        elif self._is_formula(tag, classes):
            what = "math"
        elif tag == "tr" and attributes.get("id", "").startswith("number-"):
            self.row = (attributes["id"].removeprefix("number-"), self.getpos()[0], [])
        elif tag == "td" and self.row:
            what = "td"
        self.stack.append((tag, what, self.length, attributes, self.getpos()[0]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing opens, nothing is said."""

    def handle_endtag(self, tag: str) -> None:
        if not any(one[0] == tag for one in self.stack):
            return
        while True:
            name, what, start, attributes, line = self.stack.pop()
            self.outside -= name in OUTSIDE
            self.drawn -= name == "math"
            self.written -= name == "annotation"
            if what:
                self._finish(what, self._since(start), attributes, line)
            if name == tag:
                break
        if tag == "tr" and self.row:
            id, line, cells = self.row
            self.page.rows[id] = (line, cells)
            self.row = None

    def handle_data(self, data: str) -> None:
        if self.written or not self.drawn:
            self._add(data)

    def _is_formula(self, tag: str, classes: list[str]) -> bool:
        """Our span around MathML, Quarto's around TeX, or MathML by itself."""
        inside = any(what == "math" for _, what, *_ in self.stack)
        return not inside and (tag == "math" or (tag == "span" and "math" in classes))

    def close(self) -> None:
        super().close()
        while self.stack:
            self.handle_endtag(self.stack[-1][0])

    def _add(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def _since(self, start: int) -> str:
        out: list[str] = []
        left = self.length - start
        for piece in reversed(self.text):
            if left <= 0:
                break
            out.append(piece[-left:])
            left -= len(piece)
        return "".join(reversed(out))

    def _finish(self, what: str, text: str, attributes: dict[str, str], line: int) -> None:
        if what == "math":
            if not self.outside:
                self.page.formulas.append(text)
        elif what == "td":
            if self.row:
                self.row[2].append(text)
        else:
            ids = attributes.get("data-claims" if what == "formula" else "data-claim", "").split()
            self.page.claims.append(
                Claim(
                    line,
                    tuple(ids),
                    text,
                    attributes.get("title", ""),
                    what,
                    attributes.get("data-over", ""),
                    attributes.get("data-at", ""),
                    bool(self.outside),
                )
            )


def tex(text: str) -> str:
    """What `say` prints, as a formula spells it: 3.6×10⁻⁷ -> 3.6\\times 10^{-7}."""

    def part(found: re.Match[str]) -> str:
        piece = found[0]
        if found["power"]:
            digits = (str(RAISED.index(one)) if one in RAISED else "-" for one in piece)
            return "^{" + "".join(digits) + "}"
        if found["word"]:
            return r"\mathrm{" + piece.replace(" ", r"\ ") + "}"
        if found["group"]:
            return "{,}"
        if piece == " ":
            return " " if text[: found.start()].endswith(",") else r"\ "
        return TEX.get(piece, piece)

    return re.sub(
        rf"(?P<power>[⁻{RAISED}]+)|(?P<word>[{LETTERS}]+(?: [{LETTERS}]+)*)"
        r"|(?P<group>(?<=\d),(?=\d))|.",
        part,
        text,
        flags=re.S,
    )
