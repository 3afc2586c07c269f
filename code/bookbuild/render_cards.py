"""What a link shows before it is followed: the figure, the formula, the definition it leads to.

A page opened from the disk cannot ask for another page, so the previews of all that the book links
to are one script. It holds nothing that no page links to.
"""

import json
import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, normpath
from urllib.parse import unquote, urlsplit

from bookbuild.render_search import HEADINGS
from bookbuild.render_tree import Node, html_of, parse_tree

FILE = "media/site/cards.js"
ROWS, LINES, LETTERS = 4, 12, 320  # of a table, of a listing, of a text
KEPT = {
    "a": {"href"}, "img": {"src", "alt", "width", "height"}, "span": {"class"}, "td": {"class"},
    "th": {"class", "scope"}, "code": set(), "em": set(), "strong": set(), "b": set(), "i": set(),
    "sub": set(), "sup": set(), "br": set(), "p": set(), "ul": set(), "ol": set(), "li": set(),
    "table": set(), "thead": set(), "tbody": set(), "tr": set(), "pre": set(),
}  # fmt: skip
CLASSES = {"math", "inline", "display", "align-right", "align-center"}
ALIGNED = re.compile(r"text-align:\s*(right|center)")


def cards_script(pages: Mapping[str, tuple[str, str, str, str]]) -> str:
    """The script. `pages`: path in the site -> its number, title, title's id, and HTML."""
    trees = {path: parse_tree(body) for path, (*_, body) in pages.items()}
    linked = {link for path, tree in trees.items() for link in links_of(path, tree)}
    wanted: dict[str, set[str]] = {}
    for link in linked:
        page, _, anchor = link.partition("#")
        wanted.setdefault(page, set()).add(anchor)
    cards = {}
    for path, (number, title, title_id, _) in pages.items():
        here = wanted.get(path, set())
        for key, kind, html in _cards_of(path, trees[path], here - {"", title_id}):
            cards[key] = [kind, html]
        for anchor in sorted(here & {"", title_id}):
            html = chapter_card(path, number, title, trees[path])
            cards[f"{path}#{anchor}".rstrip("#")] = ["section", html]
    data = json.dumps(cards, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"window.bookCards={data};\n"


def links_of(path: str, tree: Node) -> Iterator[str]:
    """Where a page's links inside the site lead: `chapters/masking.html#sec-mask-bit`."""
    for node in tree.elements():
        if node.tag == "a" and (link := resolved(path, node.attributes.get("href", ""))):
            yield link


def resolved(path: str, href: str) -> str:
    """A link as seen from the site's root; "" for one that leaves the site."""
    parts = urlsplit(href)
    if not href or parts.scheme or parts.netloc:
        return ""
    page = normpath(f"{dirname(path)}/{unquote(parts.path)}".lstrip("/")) if parts.path else path
    return f"{page}#{unquote(parts.fragment)}" if parts.fragment else page


def _cards_of(path: str, tree: Node, wanted: set[str]) -> Iterator[tuple[str, str, str]]:
    for node in tree.elements():
        if node.id in wanted and (made := card_of(path, node, tree)):
            yield f"{path}#{node.id}", *made


def card_of(path: str, node: Node, tree: Node) -> tuple[str, str] | None:
    """Kind and HTML of the preview of an element, or None for one that has none."""
    kind = node.id.partition("-")[0]
    if kind == "fig":
        return "figure", _figure(path, node)
    if kind == "tbl":
        return "table", _table(path, node)
    if kind == "lst":
        return "listing", _listing(path, node)
    if kind == "eq":
        number = node.find(lambda one: "eq-number" in one.classes)
        formula = node.find(lambda one: "math" in one.classes)
        return "equation", _titled(f"Equation {number.text()}" if number else "", [formula], path)
    if kind == "term":
        return _term(path, node, tree)
    if kind == "ref":
        return "reference", f"<p>{''.join(clean(path, child) for child in node.children)}</p>"
    if node.tag == "section":
        return "section", _section(path, node)
    return None


def chapter_card(path: str, number: str, title: str, tree: Node) -> str:
    named = " ".join(filter(None, [number, title]))
    return _titled(named, [_first_text(tree)], path)


def _section(path: str, node: Node) -> str:
    heading = next(
        (one for one in node.children if isinstance(one, Node) and one.tag in HEADINGS), None
    )
    return _titled(heading.text() if heading else "", [_first_text(node)], path)


def _first_text(node: Node) -> Node | None:
    """The first paragraph of a section or page that belongs to no section inside it."""
    for child in node.children:
        if (
            not isinstance(child, Node)
            or child.tag in ("section", "nav")
            or "cell" in child.classes
        ):
            continue
        if child.tag == "p":
            return cut(child, LETTERS)
        if child.tag == "div" and (found := _first_text(child)):
            return found
    return None


def _figure(path: str, node: Node) -> str:
    images = "".join(clean(path, one) for one in node.elements() if one.tag == "img")
    return images + _caption(path, node)


def _caption(path: str, node: Node) -> str:
    """The caption of the whole: the last one of a figure with parts, the only one of a table."""
    captions = [one for one in node.elements() if one.tag in ("figcaption", "caption")]
    return f"<p>{''.join(clean(path, c) for c in captions[-1].children)}</p>" if captions else ""


def _table(path: str, node: Node) -> str:
    table = node.find(lambda one: one.tag == "table")
    rows = [row for body in _inside(table, "tbody") for row in _inside(body, "tr")] if table else []
    left = len(rows) - ROWS
    # One row more than fits is shown rather than counted.
    shown = rows if left <= 1 else rows[:ROWS]
    head = "".join(clean(path, one) for one in _inside(table, "thead")) if table else ""
    body = "".join(clean(path, row) for row in shown)
    more = f"<p>… and {len(rows) - len(shown)} more rows</p>" if len(shown) < len(rows) else ""
    return f"{_caption(path, node)}<table>{head}<tbody>{body}</tbody></table>{more}"


def _inside(node: Node, tag: str) -> list[Node]:
    return [child for child in node.children if isinstance(child, Node) and child.tag == tag]


def _listing(path: str, node: Node) -> str:
    code = node.find(lambda one: one.tag == "pre")
    lines = "".join(_all_text(code)).strip("\n").split("\n") if code else []
    if len(lines) > LINES + 1:
        lines = [*lines[:LINES], "…"]
    return _caption(path, node) + Node("pre", {}, ["\n".join(lines)]).html()


def _all_text(node: Node) -> Iterator[str]:
    for child in node.children:
        yield from [child] if isinstance(child, str) else _all_text(child)


def _term(path: str, anchor: Node, tree: Node) -> tuple[str, str] | None:
    """A term of the glossary and its definition."""
    for listed in tree.elements():
        parts = [child for child in listed.children if isinstance(child, Node)]
        for place, part in enumerate(parts):
            if part.tag == "dt" and any(one is anchor for one in part.elements()):
                meanings = []
                for after in parts[place + 1 :]:
                    if after.tag != "dd":
                        break
                    meanings.append(clean(path, Node("p", {}, _without_paragraphs(after))))
                return "term", f"<p><strong>{html_of(part.text())}</strong></p>{''.join(meanings)}"
    return None


def _without_paragraphs(node: Node) -> list[Node | str]:
    children: list[Node | str] = []
    for child in node.children:
        if isinstance(child, Node) and child.tag == "p":
            children += [*child.children, " "]
        else:
            children.append(child)
    return children


def _titled(title: str, parts: list[Node | None], path: str) -> str:
    head = f"<p><strong>{html_of(title)}</strong></p>" if title else ""
    return head + "".join(clean(path, part) for part in parts if part)


def clean(path: str, node: Node | str) -> str:
    """HTML for a preview: no ids, styles or scripts, and addresses as seen from the site's root."""
    if isinstance(node, str):
        return html_of(node)
    if node.tag == "math":
        return node.html()
    inside = "".join(clean(path, child) for child in node.children)
    if node.tag not in KEPT or _is_plain(node):
        return "" if {"anchor-link", "footnote-ref"} & set(node.classes) else inside
    kept = {}
    for name in sorted(KEPT[node.tag] & node.attributes.keys()):
        kept[name] = node.attributes[name]
    classes = [name for name in node.classes if name in CLASSES]
    if aligned := ALIGNED.search(node.attributes.get("style", "")):
        classes.append(f"align-{aligned[1]}")
    kept.pop("class", None)
    if classes:
        kept["class"] = " ".join(classes)
    if "href" in kept:
        kept["href"] = resolved(path, kept["href"]) or kept["href"]
    if "src" in kept and not kept["src"].startswith("data:"):
        kept["src"] = resolved(path, kept["src"])
    tag = node.tag if node.tag != "th" or inside.strip() else "td"  # an empty corner heads nothing
    return Node(tag, kept, [RAW]).html().replace(RAW, inside)


RAW = "\0"  # stands for HTML that is finished


def _is_plain(node: Node) -> bool:
    """A span that says nothing here, such as that of a verified number."""
    return node.tag == "span" and "math" not in node.classes


def cut(node: Node, limit: int) -> Node:
    """A copy with at most about `limit` letters of text; what is left out shows as an ellipsis."""
    left = limit

    def copy(one: Node) -> Node:
        nonlocal left
        made = Node(one.tag, one.attributes)
        for child in one.children:
            if left <= 0:
                break
            if isinstance(child, Node):
                if "math" in child.classes:  # whole or not at all
                    left -= len(child.text())
                    made.children.append(child)
                else:
                    made.children.append(copy(child))
            elif len(child) <= left:
                left -= len(child)
                made.children.append(child)
            else:
                words = child[:left].rsplit(None, 1)[0] if " " in child[:left] else child[:left]
                made.children.append(f"{words} …")
                left = 0
        return made

    return copy(node) if len(node.text()) > limit + 40 else node
