"""The whole book in one file: printed, and as EPUB. Work of their own commands, not of a render.

All pages are joined into one document, in which every link leads to a label. Typst sets it as PDF,
pandoc packs it as EPUB 3. What was made is kept below `.book` with the hash of all that it was made
from; a render puts it into the site while that holds, so the site never offers another book than
its own.
"""

import hashlib
import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bookbuild.export_card import FONTS, card
from bookbuild.export_page import PRINT, Page
from bookbuild.pages import complaints, find_line, pandoc_path
from bookbuild.problems import BookError, Problem
from bookbuild.project import CONFIG, Project
from bookbuild.render_files import find_image
from bookbuild.render_links import Book

MADE = ".book/take-away"
FORMATS = {"pdf": "PDF", "epub": "EPUB"}
WEB_FONTS = Path(__file__).parents[2] / "media" / "site" / "fonts"
EPUB_FACES = ("Literata-Regular", "Literata-Italic", "Literata-SemiBold", "Inter-Regular",
              "Inter-SemiBold", "JetBrainsMono-Regular")  # fmt: skip
PICTURES = "pictures"


@dataclass(frozen=True)
class Whole:
    """The pages in one document of pandoc's, before join.lua; and the pictures, by their names."""

    project: Project
    document: str
    pictures: Mapping[str, Path]

    @property
    def key(self) -> str:
        """Hash of all that the files are made from."""
        digest = hashlib.sha256(self.document.encode())
        tools = [path for path in sorted(PRINT.iterdir()) if path.is_file()]
        for path in (Path(__file__), *tools, *sorted(FONTS.glob("*.ttf"))):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        for name, path in sorted(self.pictures.items()):
            digest.update(name.encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def join(book: Book, pages: Sequence[Page], figures: Mapping[str, Path]) -> Whole:
    """All pages as one document. Raises BookError for pictures that are not there."""
    project = book.project
    pictures: dict[str, Path] = {}
    problems: list[Problem] = []
    blocks = []
    for page in pages:
        content = json.loads(json.dumps(page.blocks))  # a copy, whose pictures get other names
        for image in _images(content):
            source = image["c"][2][0]
            found = find_image(project, page.chapter, source, figures.get(page.chapter.path))
            if isinstance(found, str):
                line = find_line(project.source(page.chapter), Path(source).name)
                problems.append(Problem(page.chapter.path, line, f"the image {source} {found}"))
            elif found:
                name = f"{PICTURES}/{found[0].replace('/', '-')}"
                image["c"][2][0] = name
                pictures[name] = found[1]
        blocks.append(_page_div(book, page, content))
    if problems:
        raise BookError(problems)
    meta = {
        "title": project.title,
        "subtitle": project.subtitle,
        "author": list(project.author),
        "description": project.description,
        "lang": project.lang,
        "site-url": project.site_url,
        "repo-url": project.repo_url,
        "book-site": project.site_url,
        "book-references": book.references.name if book.references else "",
    }
    filled = {key: _meta(value) for key, value in meta.items() if value}
    document = {"pandoc-api-version": [1, 23, 1], "meta": filled, "blocks": blocks}
    return Whole(project, json.dumps(document, ensure_ascii=False), pictures)


def _page_div(book: Book, page: Page, content: list[Any]) -> dict[str, Any]:
    chapter = page.chapter
    numbered = [["number", chapter.number]] if chapter.number else []
    classes = [] if chapter.number else ["unnumbered"]
    heading = {"t": "Header", "c": [1, [chapter.name, classes, numbered], list(page.title)]}
    attributes = [["data-href", chapter.href], ["data-title", book.fragments[chapter.path].id]]
    return {"t": "Div", "c": [[chapter.name, ["book-page"], attributes], [heading, *content]]}


def _meta(value: str | list[str]) -> dict[str, Any]:
    if isinstance(value, list):
        return {"t": "MetaList", "c": [_meta(item) for item in value]}
    return {"t": "MetaString", "c": value}


def _images(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("t") == "Image":
            yield value
        yield from _images(value.get("c"))
    elif isinstance(value, list):
        for item in value:
            yield from _images(item)


# Making.


def file_name(project: Project, kind: str) -> str:
    """`the-measured-transformer.pdf`"""
    words = re.findall(r"\w+", project.title.lower()) or ["book"]
    return f"{'-'.join(words)}.{kind}"


def make(whole: Whole, kind: str, cache: Path) -> bytes:
    """The book as `pdf` or `epub`. Raises BookError with what pandoc or Typst refuses."""
    with TemporaryDirectory(prefix="book-") as folder:
        root = Path(folder)
        (root / PICTURES).mkdir()
        for name, file in whole.pictures.items():
            (root / name).write_bytes(file.read_bytes())
        return _pdf(whole, root) if kind == "pdf" else _epub(whole, root, cache)


def _pandoc(whole: Whole, root: Path, filters: Sequence[str], options: Sequence[str]) -> None:
    command = [str(pandoc_path()), "--from=json", "--standalone", "--wrap=none"]
    command += [f"--lua-filter={PRINT / name}.lua" for name in filters]
    done = subprocess.run(
        [*command, *options],
        input=whole.document.encode(),
        capture_output=True,
        cwd=root,
        env={**os.environ, "SOURCE_DATE_EPOCH": "0", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    texts = list(complaints(done.stderr.decode(errors="replace")))
    if done.returncode and not texts:
        texts = [f"pandoc ended with code {done.returncode} and no message"]
    if texts:
        raise BookError([Problem(CONFIG, 0, f"the whole book: {text}") for text in texts])


def _pdf(whole: Whole, root: Path) -> bytes:
    import typst  # here: a fifth of a second, and the hooks have none

    options = ["--to=typst", f"--template={PRINT / 'book.typ'}", "--output=book.typ"]
    _pandoc(whole, root, ("join", "typst"), options)
    (root / "code.tmTheme").write_bytes((PRINT / "code.tmTheme").read_bytes())
    try:
        return typst.compile(
            root / "book.typ",
            root=root,
            font_paths=[str(FONTS)],
            ignore_system_fonts=True,
            timestamp=0,
        )
    except typst.TypstError as error:
        lines = (root / "book.typ").read_text(encoding="utf-8").splitlines()
        raise BookError(Problem(CONFIG, 0, f"the printed book: {_told(error, lines)}")) from None


def _told(error: Exception, lines: Sequence[str]) -> str:
    """What Typst says, with the line that it says it of."""
    placed = re.search(r"book\.typ:(\d+)", str(error))
    number = int(placed[1]) if placed else 0
    about = f": {lines[number - 1].strip()[:120]}" if 0 < number <= len(lines) else ""
    return f"{' '.join(str(error).split())}{about}"


def _epub(whole: Whole, root: Path, cache: Path) -> bytes:
    (root / "cover.png").write_bytes(card(whole.project, cache, cover=True))
    identifier = uuid.uuid5(uuid.NAMESPACE_URL, whole.project.site_url or whole.project.title)
    options = [
        "--to=epub3", "--mathml", "--toc-depth=2", "--split-level=1", f"--css={PRINT / 'epub.css'}",
        "--epub-cover-image=cover.png", f"--metadata=identifier:urn:uuid:{identifier}",
        "--output=book.epub",
    ]  # fmt: skip
    options += [f"--epub-embed-font={WEB_FONTS / name}.woff2" for name in EPUB_FACES]
    _pandoc(whole, root, ("join", "epub"), options)
    return (root / "book.epub").read_bytes()


# Keeping.


def keep(whole: Whole, kind: str, content: bytes) -> Path:
    """Put what was made where a render finds it, in one step."""
    folder = whole.project.root / MADE
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(whole.project, kind)
    write(path, content)
    write(path.with_suffix(f".{kind}.key"), whole.key.encode())
    return path


def write(path: Path, content: bytes) -> None:
    """Replace a file by a complete one: whatever fails leaves the last good one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def current(book: Book, pages: Sequence[Page], figures: Mapping[str, Path]) -> dict[str, Path]:
    """Name -> file of what was made from the book as it is now."""
    found: dict[str, Path] = {}
    key = ""
    for kind, name in FORMATS.items():
        path = book.project.root / MADE / file_name(book.project, kind)
        note = path.with_suffix(f".{kind}.key")
        if path.is_file() and note.is_file():
            key = key or join(book, pages, figures).key
            if note.read_text(encoding="utf-8") == key:
                found[name] = path
    return found
