"""Whole pages: each fragment inside the template `page.html.j2`."""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath
from posixpath import dirname
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from bookbuild.export_files import TakeAway
from bookbuild.pages import root_of
from bookbuild.policy import policy_for, without_styles
from bookbuild.project import Chapter
from bookbuild.render_files import style_sheets
from bookbuild.render_head import head_of
from bookbuild.render_links import Book, link_of, resolve_marks

CITATION_LINK = re.compile(r'href="#(ref-[^"]+)"(?= role="doc-biblioref")')
TEMPLATE, LIST = "page.html.j2", "chapter-list.html.j2"
CHAPTERS = Markup("<!--chapters-->")
MISSING = "404.html"
POLICY = "<!--policy-->"  # where the template wants what the finished page decides


def pages(book: Book, templates: Path, taken: TakeAway) -> Iterator[tuple[str, str]]:
    """Path in the site and HTML of every page, and of the one for addresses that lead nowhere."""
    environment = Environment(
        loader=FileSystemLoader([templates, Path(__file__).parent / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    template = environment.get_template(TEMPLATE)
    listing = environment.get_template(LIST)
    lists = ChapterLists(book, listing)
    for position, chapter in enumerate(book.project.chapters):
        context = page_context(book, position) | sharing(book, chapter, taken)
        context["sidebar"] = listed(book, chapter)
        yield chapter.href, whole_page(template, context, lists.of(position))
    context = missing_context(book) | {"sidebar": missing_list(book)}
    shown = listing.render(items=missing_list(book))
    yield MISSING, whole_page(template, context, shown)


class ChapterLists:
    """The list of chapters that stands on every page, made once for each folder of pages.

    On each page it has as many items as there are pages: to make it anew for each would take, in a
    long book, longer than all else. Only the item of the page itself differs within a folder.
    """

    def __init__(self, book: Book, listing: Template):
        self.book, self.listing = book, listing
        self._of_folder: dict[str, list[str]] = {}
        self._places: list[int] = []  # of the pages among the items; the others are headings

    def of(self, position: int) -> str:
        chapter = self.book.project.chapters[position]
        folder = dirname(chapter.href)
        if folder not in self._of_folder:
            items = sidebar(self.book, chapter)
            self._places = [at for at, one in enumerate(items) if one["kind"] == "chapter"]
            # Its own link is without the folder, as all others of this folder's pages are.
            self._of_folder[folder] = [
                self.listing.render(items=[item | {"current": False}]) for item in items
            ]
        parts, at = self._of_folder[folder], self._places[position]
        own = {
            "kind": "chapter",
            "title": title_of(self.book, chapter),
            "number": chapter.number,
            "href": PurePosixPath(chapter.href).name,
            "current": True,
        }
        return "".join([*parts[:at], self.listing.render(items=[own]), *parts[at + 1 :]])


def whole_page(template: Template, context: dict[str, Any], chapter_list: str) -> str:
    """A page; its list of chapters is put in at the end, past what looks at every tag."""
    if "style" in chapter_list.lower():  # perhaps an attribute of a title
        return with_policy(template.render(context | {"chapter_list": Markup(chapter_list)}))
    html = with_policy(template.render(context | {"chapter_list": CHAPTERS}))
    return html.replace(CHAPTERS, chapter_list, 1)


def with_policy(html: str) -> str:
    """A page whose styles stand in its head, under a policy that allows these and its own site."""
    html, styles = without_styles(html)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy_for(styles)}">'
    sheet = f"\n<style>{styles}</style>" if styles else ""
    return html.replace(POLICY, meta + sheet, 1)


def sharing(book: Book, chapter: Chapter, taken: TakeAway) -> dict[str, Any]:
    """What the page offers to take away, and what it tells those who link to it."""
    address = book.project.site_url
    page = "" if chapter.href == "index.html" else chapter.href
    return {
        "offers": taken.offers.get(chapter.path, ()),
        "canonical": f"{address}{page}" if address else "",
        "card": f"{address}{taken.card}" if address else "",
    }


def missing_context(book: Book) -> dict[str, Any]:
    """The page that a server shows in place of one it does not have, at whatever depth that was.

    So its links begin at the server's root: the site's address says how far below that it lies.
    Without an address the page works from the site's own folder, as all others do.
    """
    root = urlsplit(book.project.site_url).path
    context = page_context(book, 0)
    text = (
        f'<p>The address leads to no page of this book. Perhaps it was renamed. <a href="{root}'
        'index.html">Begin at the beginning</a>, take a chapter from the list, or search: '
        "the key <kbd>/</kbd> opens the search.</p>\n"
    )
    context["page"] |= {
        "title_text": "No such page", "title_html": Markup("No such page"), "number": None,
        "appendix": False, "part": None, "body_html": Markup(text), "toc": [], "href": MISSING,
        "description": "", "has_math": False,
    }  # fmt: skip
    nothing = {"prev": None, "next": None, "offers": (), "canonical": "", "card": ""}
    css = [root + path for path in style_sheets(book.project)]
    return context | nothing | {"root": root, "css": css, "head": Markup("")}


def missing_list(book: Book) -> list[dict[str, Any]]:
    root = urlsplit(book.project.site_url).path
    return [
        item | {"href": item["href"] and root + item["href"], "current": False}
        for item in sidebar(book, book.project.chapters[0])
    ]


def page_context(book: Book, position: int) -> dict[str, Any]:
    """What the template is given for one page."""
    project = book.project
    chapter = project.chapters[position]
    fragment = book.fragments[chapter.path]
    root = root_of(chapter.path)
    title = resolve_marks(book, chapter, fragment.title)
    if fragment.id:
        title = f'<span id="{escape(fragment.id)}" class="quarto-section-identifier">{title}</span>'
    return {
        "book": {
            "title": project.title,
            "subtitle": project.subtitle,
            "author": project.author,
            "description": project.description,
            "lang": project.lang,
            "repo_url": project.repo_url,
        },
        "page": {
            "title_text": fragment.text,
            "title_html": Markup(title),
            "number": chapter.number,
            "appendix": chapter.appendix,
            "part": "Appendices" if chapter.appendix else chapter.part,
            "body_html": Markup(body_of(book, chapter)),
            "toc": contents(book, chapter),
            "href": chapter.href,
            "description": fragment.description,
            "has_math": fragment.has_math,
        },
        "prev": neighbour(book, position, -1),
        "next": neighbour(book, position, +1),
        "root": root,
        "head": Markup(head_of(project, chapter)),
        "css": [root + path for path in style_sheets(project)],
    }


def body_of(book: Book, chapter: Chapter) -> str:
    """The HTML below the title, all references resolved and the bibliography in its place.

    As in Quarto, citations lead to the page that lists the references of the whole book, and the
    other pages keep theirs hidden; without such a page each shows its own at its end.
    """
    fragment = book.fragments[chapter.path]
    body = resolve_marks(book, chapter, fragment.body)
    references = fragment.references
    if book.references and book.references != chapter:
        page = escape(link_of(chapter, book.references))
        body = CITATION_LINK.sub(lambda link: f'href="{page}#{link.group(1)}"', body)
        references = references.replace("<div ", "<div hidden ", 1)
    elif references:
        references = (
            '<section id="bibliography" class="level2 unnumbered" role="doc-bibliography">\n'
            f'<h2 class="unnumbered">References</h2>\n{references}\n</section>'
        )
    if not references:
        return body
    notes = body.rfind('<section id="footnotes"')
    at = notes if notes >= 0 else len(body)
    return f"{body[:at]}{references}\n{body[at:]}"


def contents(book: Book, chapter: Chapter) -> list[dict[str, Any]]:
    """The page's headings down to toc-depth, nested: {id, html, number, level, children}."""
    fragment = book.fragments[chapter.path]
    if book.project.html.get("toc") is False or not fragment.toc:
        return []
    depth = int(book.project.html.get("toc-depth", 3))
    top: list[dict[str, Any]] = []
    open_items: list[dict[str, Any]] = []
    for heading in fragment.headings:
        if heading.level > depth or not heading.listed:
            continue
        while open_items and open_items[-1]["level"] >= heading.level:
            open_items.pop()
        item = {
            "id": heading.id,
            "html": Markup(resolve_marks(book, chapter, heading.html)),
            "number": heading.number,
            "level": heading.level,
            "children": [],
        }
        (open_items[-1]["children"] if open_items else top).append(item)
        open_items.append(item)
    return top


def listed(book: Book, current: Chapter) -> Iterator[dict[str, Any]]:
    """The same, made only if a template lists the chapters by itself."""
    yield from sidebar(book, current)


def sidebar(book: Book, current: Chapter) -> list[dict[str, Any]]:
    """Chapters in order, each part and the appendices under a heading."""
    items: list[dict[str, Any]] = []
    part, appendix = None, False
    for chapter in book.project.chapters:
        if chapter.appendix and not appendix:
            items.append(_sidebar_heading("appendix-heading", "Appendices"))
        elif chapter.part and chapter.part != part:
            items.append(_sidebar_heading("part", chapter.part))
        part, appendix = chapter.part, chapter.appendix
        here = chapter == current
        items.append(
            {
                "kind": "chapter",
                "title": title_of(book, chapter),
                "number": chapter.number,
                "href": PurePosixPath(chapter.href).name if here else link_of(current, chapter),
                "current": here,
            }
        )
    return items


def _sidebar_heading(kind: str, title: str) -> dict[str, Any]:
    return {"kind": kind, "title": title, "number": None, "href": None, "current": False}


def title_of(book: Book, chapter: Chapter) -> Markup:
    return Markup(resolve_marks(book, chapter, book.fragments[chapter.path].title))


def neighbour(book: Book, position: int, step: int) -> dict[str, Any] | None:
    """The page before or after, or None at either end."""
    chapters = book.project.chapters
    if not 0 <= position + step < len(chapters):
        return None
    other = chapters[position + step]
    href = link_of(chapters[position], other)
    return {"href": href, "title": title_of(book, other), "number": other.number}
