"""What the site offers besides its pages: copies to take away, and what machines read.

Light things only, made at every render: notebooks with the wheel that they install, a Markdown copy
of each page, `llms.txt`, and where `_quarto.yml` gives the site's address, `sitemap.xml` and
`robots.txt`. The printed book and the EPUB take longer; they have commands of their own, and what
those made is put into the site while it is still the book's (see bookbuild.export_book).
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from posixpath import dirname, relpath
from urllib.parse import quote, urlsplit

from bookbuild.export_book import current
from bookbuild.export_card import card
from bookbuild.export_notebook import (
    FOLDER,
    Package,
    as_text,
    made_for_all,
    made_from,
    notebook,
    package_of,
)
from bookbuild.export_page import Page, heading_of, prepare
from bookbuild.kept import Kept, digest
from bookbuild.problems import BookError, Problem
from bookbuild.project import Chapter, Project
from bookbuild.render_links import Book

COLAB = "https://colab.research.google.com/github/"
# The branch with the built notebooks and nothing else: Colab opens only what is in a repository.
NOTEBOOKS_BRANCH = "notebooks"
CARD = "media/social-card.png"


@dataclass(frozen=True)
class Offer:
    """One way to take a page along: `href` is relative to the page, or leads out of the site."""

    name: str
    href: str
    kind: str  # MIME type


def light_files(
    book: Book, pages: Sequence[Page], figures: Mapping[str, Path], freeze: Path, cache: Path
) -> dict[str, bytes]:
    """Path in the site -> content. Raises BookError with all that is missing."""
    project = book.project
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    executed = [page for page in pages if page.cells and is_executed(page)]
    kept, common = Kept(cache / "notebooks.kept"), made_for_all(project)
    for page in executed:
        drawn = figures.get(page.chapter.path)
        for outputs in (False, True):

            def made(page: Page = page, drawn: Path | None = drawn, outputs: bool = outputs) -> str:
                whole, missing = notebook(project, page, drawn, freeze, outputs=outputs)
                if missing:
                    raise BookError(missing)
                return as_text(whole)

            key = digest(common, str(outputs), *made_from(project, page, drawn, freeze, outputs))
            try:
                files[notebook_path(page.chapter, outputs)] = kept.get(key, made).encode()
            except BookError as error:
                problems += error.problems
    kept.save()
    package = package_of(project)
    if executed and package:
        files[f"{FOLDER}/{package.wheel}"] = wheel(project, package, cache)
    for page in pages:
        files[markdown_path(page.chapter)] = page.markdown.encode()
    files["llms.txt"] = llms_text(book).encode()
    if project.site_url:
        files["sitemap.xml"] = sitemap(project).encode()
        files["robots.txt"] = f"Sitemap: {project.site_url}sitemap.xml\n".encode()
    if problems:
        raise BookError(problems)
    return files


def is_executed(page: Page) -> bool:
    return any(cell["type"] == "code" for cell in page.cells)


def notebook_path(chapter: Chapter, outputs: bool) -> str:
    return f"{FOLDER}/{chapter.name}{'-with-outputs' if outputs else ''}.ipynb"


def markdown_path(chapter: Chapter) -> str:
    return chapter.href.removesuffix(".html") + ".md"


def offers(project: Project, page: Page, whole: Mapping[str, str]) -> list[Offer]:
    """What a page offers to take away.

    Args:
        whole: paths in the site of the printed book and the EPUB, by name, as far as they are made.
    """
    chapter = page.chapter
    here = dirname(chapter.href) or "."
    found = []
    if is_executed(page):
        kind = "application/x-ipynb+json"
        found.append(Offer("Notebook", relpath(notebook_path(chapter, False), here), kind))
        with_outputs = relpath(notebook_path(chapter, True), here)
        found.append(Offer("Notebook with outputs", with_outputs, kind))
        if colab := colab_address(project, chapter):
            found.append(Offer("Open in Colab", colab, "text/html"))
    found.append(Offer("Markdown", relpath(markdown_path(chapter), here), "text/markdown"))
    for name, path in whole.items():
        kind = "application/pdf" if path.endswith(".pdf") else "application/epub+zip"
        found.append(Offer(name, relpath(path, here), kind))
    return found


def colab_address(project: Project, chapter: Chapter) -> str:
    """Where Colab opens the chapter; nothing for a repository that is not on GitHub."""
    parts = urlsplit(project.repo_url)
    if parts.netloc not in ("github.com", "www.github.com"):
        return ""
    repository = parts.path.strip("/").removesuffix(".git")
    return f"{COLAB}{repository}/blob/{NOTEBOOKS_BRANCH}/{quote(chapter.name)}.ipynb"


def llms_text(book: Book) -> str:
    """A list of the Markdown copies, as llmstxt.org proposes it: title, summary, links."""
    project = book.project
    lines = [f"# {project.title}", ""]
    if project.description:
        lines += [f"> {project.description}", ""]
    lines += [
        "Each address below is the whole text of one page of the book, with the printed value of "
        "every computed number.",
        "",
    ]
    for name, appendix in (("Chapters", False), ("Optional", True)):
        chapters = [one for one in project.chapters if one.appendix == appendix]
        if chapters:
            lines += [f"## {name}", "", *(_llms_line(book, one) for one in chapters), ""]
    return "\n".join(lines)


def _llms_line(book: Book, chapter: Chapter) -> str:
    fragment = book.fragments[chapter.path]
    address = f"{book.project.site_url}{markdown_path(chapter)}"
    told = fragment.description or first_sentence(fragment.body)
    return f"- [{heading_of(chapter, fragment.text)}]({address})" + (f": {told}" if told else "")


def first_sentence(html: str) -> str:
    """The first sentence of a page's first paragraph, as text; nothing where it is not plain."""
    found = re.search(r"<p>(.*?)</p>", html, re.DOTALL)
    if not found or "math" in found[1] or "<!--" in found[1]:
        return ""
    text = " ".join(re.sub(r"<[^>]+>", "", found[1]).split())
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, sign)
    sentence = re.match(r".*?[.?!](?=\s|$)", text)
    return sentence[0] if sentence else ""


def sitemap(project: Project) -> str:
    """Without dates: a build states none, so that two builds of one book are the same."""
    pages = [quote(f"{project.site_url}{one.href}", safe=":/") for one in project.chapters]
    entries = "".join(f"  <url><loc>{escape(page)}</loc></url>\n" for page in pages)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'
    )


def wheel(project: Project, package: Package, cache: Path) -> bytes:
    """The wheel of the project's package, made by its own build backend; kept while it holds."""
    kept = cache / f"wheel-{_package_hash(project.root)}.whl"
    if kept.is_file():
        return kept.read_bytes()
    from tempfile import TemporaryDirectory

    try:
        from hatchling.builders.wheel import WheelBuilder
    except ImportError:
        text = "its build backend hatchling is not installed; make the environment anew: make site"
        raise BookError(Problem("pyproject.toml", 0, text)) from None
    with TemporaryDirectory() as folder:
        try:
            builder = WheelBuilder(str(project.root))
            made = list(builder.build(directory=folder, versions=["standard"]))
        except Exception as error:  # a backend raises what it likes
            text = f"gives no wheel for the notebooks: {error}"
            raise BookError(Problem("pyproject.toml", 0, text)) from None
        path = Path(made[0])
        if path.name != package.wheel:
            text = f"gives {path.name}, where the notebooks install {package.wheel}"
            raise BookError(Problem("pyproject.toml", 0, text))
        content = path.read_bytes()
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.glob("wheel-*.whl"):
        old.unlink(missing_ok=True)
    kept.write_bytes(content)
    return content


def _package_hash(root: Path) -> str:
    digest = hashlib.sha256()
    files = [root / "pyproject.toml", root / "ledger.toml", root / "LICENSE", root / "README.md"]
    for folder in (root / "code", root / "media" / "data"):
        files += sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    for path in files:
        if path.is_file():
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class TakeAway:
    """What the pages offer, by the path of the chapter, and the files that make the offers true."""

    offers: Mapping[str, Sequence[Offer]]
    files: Mapping[str, bytes]
    card: str  # path of the picture that stands for the book where a link to it is shown


def take_away(
    book: Book,
    markdown: Mapping[str, str],
    figures: Mapping[str, Path],
    freeze: Path,
    cache: Path,
    jobs: int,
) -> TakeAway:
    """All that a render makes besides pages. Raises BookError with all that is wrong."""
    project = book.project
    cache = cache.with_name("copies")
    pages = prepare(book, markdown, freeze, cache, jobs, project.site_url)
    files = light_files(book, pages, figures, freeze, cache)
    files[CARD] = card(project, cache)
    whole = {}
    for name, made in current(book, pages, figures).items():
        whole[name] = made.name
        files[made.name] = made.read_bytes()
    offered = {page.chapter.path: offers(project, page, whole) for page in pages}
    return TakeAway(offered, files, CARD)
