"""Render the book through pandoc: every page by itself, then what they say about each other.

Every page is one run of pandoc that knows nothing of the others, so that an unchanged page is never
rendered again. Numbers of cross references, links and the sidebar are put in afterwards. All that
is wrong on any page is reported together, before a page is written.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from posixpath import dirname, normpath
from urllib.parse import unquote

from bookbuild.export_files import take_away
from bookbuild.pages import (
    BEFORE_CITATIONS,
    PandocError,
    check_front_matter,
    find_line,
    has_own_references,
    job_for,
    job_hash,
    locate,
    pandoc_path,
    run_pandoc,
    tools_hash,
)
from bookbuild.pictures import framed, size_of, themed
from bookbuild.policy import unsafe_in
from bookbuild.problems import BookError, Problem
from bookbuild.project import CONFIG, Chapter, Project
from bookbuild.render_files import collect_files
from bookbuild.render_finding import finding_scripts
from bookbuild.render_fragment import (
    Fragment,
    forget_fragments,
    load_fragment,
    parse_fragment,
    store_fragment,
)
from bookbuild.render_head import check_heads
from bookbuild.render_links import Book, check_links, check_references, gather
from bookbuild.render_pages import pages

TEMPLATES = Path(__file__).parent / "templates"
MEDIA = Path(__file__).parents[2] / "media"
# Files of the site that every page loads, and what is joined to them: one request instead of two.
JOINED = {
    "media/site/site.css": "media/site/reading.css",
    "media/site/site.js": "media/site/reading.js",
}


@dataclass(frozen=True)
class RenderReport:
    """Which pages pandoc rendered anew and which came from the cache, as paths in book order."""

    rendered: tuple[str, ...]
    cached: tuple[str, ...]


def render_site(
    project: Project,
    output: Path,
    markdown: Mapping[str, str],
    figures: Mapping[str, Path],
    cache: Path,
    jobs: int,
    *,
    freeze: Path | None = None,
    templates: Path = TEMPLATES,
    media: Path = MEDIA,
) -> RenderReport:
    """Write the complete site into the empty folder `output`.

    Args:
        markdown: path of a chapter -> its Markdown after execution.
        figures: path of a chapter -> the folder with its frozen figures, `…/figure-html`.
        cache: folder where rendered pages are kept between builds.
        jobs: how many pandoc processes may run at a time.
        freeze: what the generated tables are made from; the project's `_freeze` by default.
        templates: folder with `page.html.j2`.
        media: folder with the site's own assets, `site`.

    Raises:
        BookError: with all that is wrong on all pages. Nothing is written then.
    """
    sources = {chapter.path: project.source(chapter) for chapter in project.chapters}
    raise_all([*check_settings(project), *_front_problems(project, sources)])
    freeze = freeze or project.root / "_freeze"
    fragments, keys, rendered = _fragments(project, markdown, sources, freeze, cache, jobs)
    book = gather(project, fragments, references_page(project, markdown))
    files, missing = collect_files(book, figures, media)
    wrong = [*check_references(book), *check_links(book, files), *check_heads(project, files)]
    wrong += check_safety(book)
    raise_all([*missing, *wrong])
    taken = take_away(book, markdown, figures, freeze, cache, jobs)
    for target, source in sorted(files.items()):
        copy(source, _place(output, target))
    for target, content in sorted(taken.files.items()):
        _place(output, target).write_bytes(content)
    join(output)
    for target, html in pages(book, templates, taken):
        framed_html = framed(html, partial(picture_size, files, target))
        _place(output, target).write_text(framed_html, encoding="utf-8", newline="\n")
    for target, script in finding_scripts(book, cache.parent):
        _place(output, target).write_text(script, encoding="utf-8", newline="\n")
    forget_fragments(cache, keys.values())
    paths = [chapter.path for chapter in project.chapters]
    return RenderReport(
        rendered=tuple(path for path in paths if path in rendered),
        cached=tuple(path for path in paths if path not in rendered),
    )


def book_of(
    project: Project, markdown: Mapping[str, str], freeze: Path, cache: Path, jobs: int
) -> Book:
    """The pages and what they say about each other, for what is made besides the site."""
    sources = {chapter.path: project.source(chapter) for chapter in project.chapters}
    fragments, _, _ = _fragments(project, markdown, sources, freeze, cache, jobs)
    return gather(project, fragments, references_page(project, markdown))


def copy(source: Path, target: Path) -> None:
    """Put a file into the site; a picture gets its colours for both themes."""
    if source.suffix == ".svg":
        svg = source.read_bytes().decode("utf-8", errors="surrogateescape")
        target.write_bytes(themed(svg).encode("utf-8", errors="surrogateescape"))
    else:
        shutil.copyfile(source, target)


def join(output: Path) -> None:
    for first, second in JOINED.items():
        if (output / second).is_file():
            with (output / first).open("ab") as file:
                file.write(b"\n" + (output / second).read_bytes())
            (output / second).unlink()


def picture_size(files: Mapping[str, Path], page: str, address: str) -> tuple[int, int] | None:
    """How large the picture is that a page of the site names by a relative address."""
    file = files.get(normpath(f"{dirname(page)}/{unquote(address)}".lstrip("/")))
    return size_of(file.read_bytes()) if file else None


def check_safety(book: Book) -> Iterator[Problem]:
    """Code in a page's own text, which the page's policy would block."""
    for chapter in book.project.chapters:
        fragment, source = book.fragments[chapter.path], book.project.source(chapter)
        for line, text in unsafe_in(fragment.title + fragment.body + fragment.references):
            needle = re.sub(r".*?(?:<|, )?([\w-]+:?)[^\w]*$", r"\1", text)
            said = f"{text}, on line {line} of its HTML; a page runs nothing of its own"
            yield Problem(chapter.path, find_line(source, f"<{needle}", needle), said)


def raise_all(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise BookError(found)


def check_settings(project: Project) -> list[Problem]:
    """Refuse what only Quarto could carry out, and a bibliography that is not there."""
    config = (project.root / CONFIG).read_text(encoding="utf-8")
    problems = [
        Problem(
            CONFIG,
            find_line(config, path),
            f"lists the filter {path}, which this build does not run; it runs "
            f"{', '.join(BEFORE_CITATIONS)}",
        )
        for path in project.filters
        if PurePosixPath(path).stem not in BEFORE_CITATIONS
    ]
    if not project.lang.startswith("en"):
        text = f"lang is {project.lang}, but this build writes Figure, Table and Section in English"
        problems.append(Problem(CONFIG, find_line(config, "lang:"), text))
    for path in (*project.bibliography, *filter(None, [project.csl])):
        if not (project.root / path).is_file():
            text = f"names {path}, which does not exist"
            problems.append(Problem(CONFIG, find_line(config, path), text))
    return problems


def _front_problems(project: Project, sources: Mapping[str, str]) -> list[Problem]:
    return [p for c in project.chapters for p in check_front_matter(c, sources[c.path])]


def references_page(project: Project, markdown: Mapping[str, str]) -> Chapter | None:
    """The page with a div #refs: the first one, as in Quarto. It lists what all pages cite."""
    return next((c for c in project.chapters if has_own_references(markdown[c.path])), None)


def _fragments(
    project: Project,
    markdown: Mapping[str, str],
    sources: Mapping[str, str],
    freeze: Path,
    cache: Path,
    jobs: int,
) -> tuple[dict[str, Fragment], dict[str, str], set[str]]:
    """Every page's fragment and key in the cache, and which pages pandoc had to render."""
    pandoc = pandoc_path()
    tools = tools_hash(pandoc)
    fragments: dict[str, Fragment] = {}
    keys: dict[str, str] = {}
    rendered: set[str] = set()
    problems: list[Problem] = []

    def render(chapter: Chapter, cited: Iterable[str] = ()) -> None:
        job = job_for(project, chapter, markdown[chapter.path], cited)
        key = job_hash(job, project.root, freeze, tools)
        fragment = load_fragment(cache, key)
        if fragment is None:
            try:
                fragment = parse_fragment(run_pandoc(pandoc, project.root, freeze, job))
            except PandocError as error:
                problems.extend(locate(job, sources[chapter.path], text) for text in error.texts)
                return
            store_fragment(cache, key, fragment)
            rendered.add(chapter.path)
        fragments[chapter.path], keys[chapter.path] = fragment, key

    last = references_page(project, markdown)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        list(pool.map(render, [chapter for chapter in project.chapters if chapter != last]))
    if last:  # it waits for the others, because it lists what they cite
        render(last, [key for fragment in fragments.values() for key in fragment.citations])
    raise_all(problems)
    return fragments, keys, rendered


def _place(output: Path, target: str) -> Path:
    path = output / target
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
