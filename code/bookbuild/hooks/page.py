"""Read a rendered page for what Quarto only warns about: references and citations to nowhere."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
# Elements whose text is not the book's prose.
VERBATIM = {"pre", "code", "script", "style", "template"}
# Quarto's mark in place of a reference that leads nowhere: `?@sec-x`, or `?sec-x` across pages.
UNRESOLVED = re.compile(r"\?@([\w-]+)|(?<![\w?])\?((?:sec|fig|tbl|eq|lst|thm|def|exm|exr)-[\w-]+)")
# pandoc's mark in place of a citation without an entry.
UNCITED = re.compile(r"([^\s;,()\[\]]+)\?|\?\?\?")


@dataclass
class Page:
    """Labels and keys that lead nowhere, in the order of the page."""

    unresolved: list[str] = field(default_factory=list)
    uncited: list[str] = field(default_factory=list)


def read_page(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page


@dataclass
class _Open:
    tag: str
    classes: frozenset[str]
    text: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[_Open] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(_Open(tag, frozenset((dict(attrs).get("class") or "").split())))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing opens, nothing is said."""

    def handle_endtag(self, tag: str) -> None:
        if not any(one.tag == tag for one in self.open):
            return
        while True:  # an end tag closes what was left open inside it
            one = self.open.pop()
            self._closed(one, "".join(one.text))
            if one.tag == tag:
                return

    def handle_data(self, data: str) -> None:
        for one in self.open:
            one.text.append(data)
        if not any(one.tag in VERBATIM or "math" in one.classes for one in self.open):
            self.page.unresolved += [one or other for one, other in UNRESOLVED.findall(data)]

    def _closed(self, one: _Open, text: str) -> None:
        if "quarto-unresolved-ref" in one.classes:
            self.page.unresolved.append(text.lstrip("?@"))
        if one.tag == "strong" and any("citation" in outer.classes for outer in self.open):
            self.page.uncited += [key or text for key in UNCITED.findall(text)]
