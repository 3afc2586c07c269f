"""The HTML of a page as a tree, for what is made from finished pages: search and previews.

Only what pandoc writes is expected: every element is closed, but for the void ones.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
CODE = re.compile(r"(<pre\b[^>]*>)(.*?)(</pre>)", re.DOTALL)
TAGS = re.compile(r"<(?!/?code\b)[^>]*>")
BLOCKS = {"p", "div", "li", "dt", "dd", "tr", "td", "th", "figcaption", "caption", "pre", "section",
          "h1", "h2", "h3", "h4", "h5", "h6", "table", "figure", "blockquote", "br"}  # fmt: skip


@dataclass
class Node:
    """An element: its children are elements and pieces of text."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.attributes.get("id", "")

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    def elements(self) -> Iterator["Node"]:
        """This element and all inside it, in the order of the text."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.elements()

    def find(self, wanted: Callable[["Node"], bool]) -> "Node | None":
        return next((node for node in self.elements() if wanted(node)), None)

    def text(self) -> str:
        """The text as it reads, white space joined; blocks stand apart from each other."""
        return " ".join("".join(_pieces(self)).split())

    def html(self) -> str:
        if not self.tag:
            return "".join(map(html_of, self.children))
        attributes = "".join(f' {name}="{escape(v)}"' for name, v in self.attributes.items())
        if self.tag in VOID:
            return f"<{self.tag}{attributes}>"
        return f"<{self.tag}{attributes}>{''.join(map(html_of, self.children))}</{self.tag}>"


def html_of(child: Node | str) -> str:
    return child.html() if isinstance(child, Node) else escape(child, quote=False)


def said(node: Node) -> list[Node | str]:
    """The children that are read: of a formula its TeX, which stands beside what is drawn."""
    if node.tag == "semantics":
        return [child for child in node.children if isinstance(child, Node)][-1:]
    return node.children


def _pieces(node: Node) -> Iterator[str]:
    for child in said(node):
        if isinstance(child, str):
            yield child
        elif child.tag in BLOCKS:
            yield " "
            yield from _pieces(child)
            yield " "
        else:
            yield from _pieces(child)


def parse_tree(html: str) -> Node:
    """The tree under a root without a tag. Code loses its colours, which are most of its tags."""
    html = CODE.sub(lambda block: block[1] + TAGS.sub("", block[2]) + block[3], html)
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if any(node.tag == tag for node in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)
