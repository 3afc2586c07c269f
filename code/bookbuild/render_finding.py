"""The scripts by which pages know each other: what the search looks through, what links show.

Most of the work is one page's own and is kept from one render to the next; only what the pages say
about each other is put together anew.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from functools import cached_property
from pathlib import Path

from bookbuild.kept import Kept, code_digest, digest
from bookbuild.render_cards import FILE as CARDS
from bookbuild.render_cards import card_of, chapter_card, links_of
from bookbuild.render_links import Book
from bookbuild.render_pages import body_of
from bookbuild.render_search import FILE as INDEX
from bookbuild.render_search import sections_of
from bookbuild.render_tree import Node, parse_tree

NOTE = "finding.json"  # in the work folder
MADE_BY = ("kept", "render_cards", "render_finding", "render_search", "render_tree")


class _Found:
    """A page as the two scripts see it. Its tree is made only where something is not kept."""

    def __init__(self, path: str, number: str, title: str, title_id: str, body: str):
        self.path, self.number, self.title, self.title_id = path, number, title, title_id
        self.body = body

    @cached_property
    def tree(self) -> Node:
        return parse_tree(self.body)

    def key(self, code: str) -> str:
        return digest(code, self.path, self.number, self.title, self.title_id, self.body)

    def read(self) -> list[list]:
        """Its sections, and where its links lead."""
        sections = sections_of(self.path, self.number, self.title, self.body)
        rows = [list(astuple(one))[1:] for one in sections]  # the page comes first
        return [rows, sorted(set(links_of(self.path, self.tree)))]

    def cards(self, wanted: set[str]) -> dict[str, list[str]]:
        """Its previews, of what links lead to: link -> kind and HTML."""
        found = {}
        inside, whole = wanted - {"", self.title_id}, wanted & {"", self.title_id}
        for node in self.tree.elements() if inside else ():
            if node.id in inside and (made := card_of(self.path, node, self.tree)):
                found[f"{self.path}#{node.id}"] = list(made)
        for anchor in sorted(whole):
            html = chapter_card(self.path, self.number, self.title, self.tree)
            found[f"{self.path}#{anchor}".rstrip("#")] = ["section", html]
        return found


def finding_scripts(book: Book, work: Path | None = None) -> Iterator[tuple[str, str]]:
    """Path in the site and text of each script. `work`: folder that keeps what is a page's own."""
    here = Path(__file__)
    code = code_digest(here.with_name(f"{name}.py") for name in MADE_BY)
    kept = Kept(work / NOTE if work else None)
    pages = [_found(book, chapter) for chapter in book.project.chapters]
    keys = {page.path: page.key(code) for page in pages}
    read = {page.path: kept.get(keys[page.path], page.read) for page in pages}
    index = {
        "pages": [[page.path, page.number, page.title] for page in pages],
        "sections": [
            [place, *row] for place, page in enumerate(pages) for row in read[page.path][0]
        ],
    }
    yield INDEX, f"window.bookSearchIndex={_compact(index)};\n"
    wanted = anchors(link for _, links in read.values() for link in links)
    cards: dict[str, list[str]] = {}
    for page in pages:
        here = wanted.get(page.path, set())
        key = digest(keys[page.path], *sorted(here))
        cards |= kept.get(key, lambda page=page, here=here: page.cards(here))
    yield CARDS, f"window.bookCards={_compact(dict(sorted(cards.items())))};\n"
    kept.save()


def anchors(links: Iterable[str]) -> dict[str, set[str]]:
    """Page -> where on it links lead, "" for the page itself."""
    found: dict[str, set[str]] = {}
    for link in links:
        page, _, anchor = link.partition("#")
        found.setdefault(page, set()).add(anchor)
    return found


def _compact(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _found(book: Book, chapter) -> _Found:
    fragment = book.fragments[chapter.path]
    body = body_of(book, chapter)
    return _Found(chapter.href, chapter.number or "", fragment.text, fragment.id, body)
