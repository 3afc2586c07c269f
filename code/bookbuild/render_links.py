"""What pages say about each other: labels, numbers of cross references, links."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from posixpath import dirname, normpath, relpath
from urllib.parse import unquote, urlsplit

from bookbuild.pages import find_line
from bookbuild.problems import BookError, Problem
from bookbuild.project import Chapter, Project
from bookbuild.render_fragment import Fragment

MARK = re.compile(r"<!--xref-(open|text|number|close)(?: ([^ ]+?))?-->")
TEMPLATE_IDS = {"title-block-header", "quarto-document-content"}
NO_BREAK_SPACE = "\u00a0"


@dataclass(frozen=True)
class Target:
    """What a cross reference to a label leads to and says."""

    chapter: Chapter
    prefix: str
    number: str
    title: str = ""  # HTML, of a section


@dataclass(frozen=True)
class Book:
    """The fragments of all pages, and where each label is."""

    project: Project
    fragments: Mapping[str, Fragment]
    targets: Mapping[str, Target]
    references: Chapter | None  # the page that lists what the whole book cites


def gather(project: Project, fragments: Mapping[str, Fragment], references: Chapter | None) -> Book:
    """Put the labels of all pages together. Raises BookError where two of them are the same."""
    targets: dict[str, Target] = {}
    problems: list[Problem] = []
    for chapter in project.chapters:
        fragment = fragments[chapter.path]
        for label, target in targets_of(chapter, fragment):
            other = targets.setdefault(label, target).chapter
            if other != chapter:
                where = f"{other.path}:{label_line(project, other, label)}"
                text = f"the label {label} is taken by {where}; give one of them another"
                problems.append(Problem(chapter.path, label_line(project, chapter, label), text))
        for name in repeated_ids(fragment):
            text = f"the label {name} occurs twice on this page; give one of them another"
            problems.append(Problem(chapter.path, label_line(project, chapter, name), text))
    if problems:
        raise BookError(problems)
    return Book(project, fragments, targets, references)


def targets_of(chapter: Chapter, fragment: Fragment) -> Iterator[tuple[str, Target]]:
    for item in fragment.labels:
        yield item.label, Target(chapter, item.prefix, item.number)
    for heading in fragment.headings:
        if heading.id.startswith("sec-"):
            yield heading.id, Target(chapter, "Section", heading.number, heading.html)
    if fragment.id.startswith("sec-"):
        prefix = "Appendix" if chapter.appendix else "Chapter"
        yield fragment.id, Target(chapter, prefix, chapter.number or "", fragment.title)


def repeated_ids(fragment: Fragment) -> Iterator[str]:
    seen = {fragment.id}
    for name in fragment.ids:
        if name in seen:
            yield name
        seen.add(name)


def label_line(project: Project, chapter: Chapter, label: str) -> int:
    """Where the source defines a label: `{#label}` or a cell's `#| label: label`."""
    whole = re.sub(r"-\d+$", "", label)  # part 2 of fig-pair is fig-pair-2
    needles = [
        f"{mark}{name}"
        for name in dict.fromkeys([label, whole])
        for mark in ("#| label: ", "#| lst-label: ", "#")
    ]
    return find_line(project.source(chapter), *needles)


# Cross references.


def check_references(book: Book) -> Iterator[Problem]:
    """Citations without an entry and references to labels that no page has."""
    for chapter in book.project.chapters:
        fragment, source = book.fragments[chapter.path], book.project.source(chapter)
        files = ", ".join(book.project.bibliography) or "a bibliography; _quarto.yml names none"
        for key in fragment.missing:
            text = (
                f"@{key} is not an entry of {files}; "
                "a cross reference would begin with fig-, tbl-, lst-, eq- or sec-"
            )
            yield Problem(chapter.path, find_line(source, f"@{key}"), text)
        marks = {label for kind, label in MARK.findall(fragment.body) if kind == "open"}
        for label in sorted(marks - book.targets.keys()):
            text = f"@{label} refers to a label that nothing in this book has"
            yield Problem(chapter.path, find_line(source, f"@{label}"), text)


def resolve_marks(book: Book, chapter: Chapter, html: str) -> str:
    """Replace the marks of `references.lua` by links with numbers."""

    def replace(mark: re.Match[str]) -> str:
        kind, label = mark.groups()
        if kind == "close":
            return "</a>"
        target = book.targets[label]
        if kind == "open":
            href = escape(link_of(chapter, target.chapter, label))
            return f'<a href="{href}" class="quarto-xref">'
        # A page without a number numbers no sections, so Quarto names them by their titles there.
        if target.title and (not target.number or chapter.number is None):
            return resolve_marks(book, target.chapter, target.title)
        return (
            target.number if kind == "number" else f"{target.prefix}{NO_BREAK_SPACE}{target.number}"
        )

    return MARK.sub(replace, html)


def link_of(here: Chapter, there: Chapter, anchor: str = "") -> str:
    """Relative link from one page to another, or to an anchor; within one page only `#anchor`."""
    if here == there:
        return f"#{anchor}"
    page = relpath(there.href, dirname(here.href) or ".")
    return f"{page}#{anchor}" if anchor else page


# Links.


def check_links(book: Book, files: dict[str, Path]) -> Iterator[Problem]:
    """Links inside the site that lead nowhere. A linked file of the project joins `files`."""
    anchors = {chapter.href: anchors_of(book, chapter) for chapter in book.project.chapters}
    for chapter in book.project.chapters:
        for href in dict.fromkeys(book.fragments[chapter.path].hrefs):
            parts = urlsplit(href)
            if parts.scheme or parts.netloc:
                continue
            path = path_of(chapter, parts.path) if parts.path else chapter.href
            wrong = wrong_link(book.project, path, unquote(parts.fragment), anchors, files)
            if wrong:
                written = re.sub(r"\.html(?=$|[#?])", ".qmd", href)  # as before links.lua
                line = find_line(book.project.source(chapter), written, href, f"#{parts.fragment}")
                yield Problem(chapter.path, line, f"the link {written} {wrong}")


def wrong_link(
    project: Project,
    path: str,
    anchor: str,
    anchors: Mapping[str, set[str]],
    files: dict[str, Path],
) -> str | None:
    """What is wrong with a link to `path` in the site, or None."""
    if path in anchors:
        missing = anchor and anchor not in anchors[path]
        return "names an anchor that the page does not have" if missing else None
    if path in files:
        return None
    file = project.root / path
    if file.with_suffix(".qmd").is_file() and path.endswith(".html"):
        return "leads to a page that _quarto.yml does not list"
    if path.startswith("../") or not file.is_file():
        return "leads nowhere"
    files[path] = file
    return None


def path_of(chapter: Chapter, link: str) -> str:
    """Path in the site of what a page names by a relative path."""
    return normpath(f"{dirname(chapter.href)}/{unquote(link)}".lstrip("/"))


def anchors_of(book: Book, chapter: Chapter) -> set[str]:
    fragment = book.fragments[chapter.path]
    found = {*fragment.ids, fragment.id, *TEMPLATE_IDS}
    if fragment.references:
        found |= {"refs", *(f"ref-{key}" for key in fragment.citations)}
    return found
