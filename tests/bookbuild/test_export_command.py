"""`book pdf` and `book epub`: what is refused, what is kept, and when the site offers it."""

import re
import zipfile

import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner
from pypdf import PdfReader

from bookbuild import export_book
from bookbuild.cli import main

PAGES = {
    "index.qmd": "# Start {.unnumbered}\n\nSee @eq-root, @tbl-two, [the end](end.qmd#sec-end).\n",
    "parts.qmd": """\
# Parts {#sec-parts}

$$
\\mathrm{Mean}\\!\\left(\\frac{x}{\\sqrt{d_k}}\\right) \\odot
\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}
$$ {#eq-root}

::: {.callout-note title="A *note* with $x_1$"}
Inside, `code_like_this()` and "quotes" # @ < > * _ ~ \\$ signs.
:::

| a | b |
|:--|--:|
| 1 | `x` |

: Two columns. {#tbl-two}

::: {.panel-tabset}
## First
One.

## Second
Two.
:::

```python
text = "a string with ``` ticks"  # and a comment
```

``` {.python filename="named.py"}
x = 1
```

![A dot.](dot.svg){#fig-dot fig-alt="A black dot." width=120}

A note^[Of the foot.] and a term[^2].

[^2]: Defined below.
""",
    "end.qmd": "# The end\n\n## A section {#sec-end}\n\nBack to @sec-parts.\n",
}
DOT = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><circle r="9"/></svg>\n'


@pytest.fixture
def book(tmp_path):
    root = tmp_path / "book"
    root.mkdir()
    for name, text in PAGES.items():
        (root / name).write_text(text)
    (root / "dot.svg").write_text(DOT)
    listed = "".join(f"    - {name}\n" for name in PAGES)
    (root / "_quarto.yml").write_text(
        f'project:\n  type: book\nbook:\n  title: "Small & good"\n  chapters:\n{listed}'
    )
    return root


def run(root, *arguments):
    return CliRunner().invoke(main, [arguments[0], "-C", str(root), *map(str, arguments[1:])])


def offered(root):
    page = BeautifulSoup((root / "_book/parts.html").read_text(), "lxml")
    return {link.get_text(): link["href"] for link in page.select(".take-away a")}


def test_the_printed_book_holds_every_kind_of_element(book):
    done = run(book, "pdf")
    assert done.exit_code == 0, done.output
    assert re.match(r"\S+/_book/small-good\.pdf, 0\.\d MB in \d+\.\d s\n", done.stdout)
    reader = PdfReader(book / "_book/small-good.pdf")
    text = " ".join(" ".join(page.extract_text() for page in reader.pages).split())
    for said in (
        "Equation 1.1", "Table 1.1: Two columns.", "Figure 1.1: A dot.", "A note with", "First",
        "Second", "named.py", "a string with ``` ticks", "code_like_this()", "# @ < > * _ ~ $",
        "Of the foot.", "Defined below.", "Back to Chapter 1.", "2.1 A section",
    ):  # fmt: skip
        assert said in text, said
    assert not re.search(r"\\|\{#|:::|\$\$", text)
    assert reader.metadata.title == "Small & good"
    assert "/CreationDate" not in reader.metadata or "1970" in reader.metadata["/CreationDate"]


def test_the_epub_has_the_pages_in_order_and_the_formula_as_mathml(book):
    assert run(book, "epub").exit_code == 0
    with zipfile.ZipFile(book / "_book/small-good.epub") as archive:
        assert archive.namelist()[0] == "mimetype"
        navigation = BeautifulSoup(archive.read("EPUB/nav.xhtml"), "xml").nav.get_text(" ")
        text = b"".join(archive.read(name) for name in archive.namelist() if "ch00" in name)
    assert navigation.index("Start") < navigation.index("Parts") < navigation.index("The end")
    assert b"<math" in text and b"msqrt" in text and b"callout-note" in text


def test_the_site_offers_a_file_while_it_says_what_the_site_says(book):
    run(book, "render")
    assert set(offered(book)) == {"Markdown"}
    run(book, "pdf")
    assert offered(book)["PDF"] == "small-good.pdf"
    run(book, "render")  # another render keeps it
    assert (book / "_book/small-good.pdf").is_file()
    (book / "end.qmd").write_text(PAGES["end.qmd"] + "\nA new sentence.\n")
    run(book, "render")
    assert set(offered(book)) == {"Markdown"}
    assert not (book / "_book/small-good.pdf").exists()


@pytest.mark.parametrize("kind", ["pdf", "epub"])
def test_a_failed_export_leaves_the_last_good_file(book, tmp_path, monkeypatch, kind):
    output = tmp_path / f"mine.{kind}"
    assert run(book, kind, "-o", output).exit_code == 0
    good = output.read_bytes()
    assert run(book, kind, "-o", output).exit_code == 0
    assert output.read_bytes() == good  # the same bytes again
    broken = tmp_path / "print"
    broken.mkdir()
    for path in export_book.PRINT.iterdir():
        text = path.read_text(encoding="utf-8")
        (broken / path.name).write_text(text, encoding="utf-8")
    (broken / "book.typ").write_text("#undefined\n\n$body$\n")
    (broken / "epub.lua").write_text('error("`x` is refused", 0)')
    monkeypatch.setattr(export_book, "PRINT", broken)
    failed = run(book, kind, "-o", output)
    assert failed.exit_code == 1
    said = "unknown variable: undefined" if kind == "pdf" else "`x` is refused"
    assert said in failed.stderr and "Traceback" not in failed.stderr
    assert output.read_bytes() == good
    assert not list(tmp_path.glob(".*.new"))


def test_a_stale_chapter_is_named_with_what_to_do(book):
    (book / "end.qmd").write_text("# The end\n\n```{python}\n#| label: one\n1\n```\n")
    failed = run(book, "epub")
    assert failed.exit_code == 1
    assert "end.qmd: is stale: was never executed; run book build" in failed.stderr


def test_a_file_that_cannot_be_written_is_refused_before_the_work(book, tmp_path):
    failed = run(book, "pdf", "-o", tmp_path / "nowhere" / "x.pdf")
    assert failed.exit_code == 1
    assert "must name a file in a folder that exists" in failed.stderr
    assert not (book / "_book").exists()


def test_a_link_to_nowhere_is_refused_also_in_the_whole_book(book):
    (book / "end.qmd").write_text("# The end\n\nSee @sec-lost.\n")
    failed = run(book, "pdf")
    assert failed.exit_code == 1
    assert re.search(r"end\.qmd:3: @sec-lost refers to a label", failed.stderr)
