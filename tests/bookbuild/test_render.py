"""Small books through the renderer: what pages say about each other, and what is refused."""

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.render import render_site

BIBLIOGRAPHY = """
@article{zoe2017, author = {Zoe, Ann}, title = {Last}, year = {2017}, journal = {J}}
@article{abel2001, author = {Abel, Bo}, title = {First}, year = {2001}, journal = {J}}
@article{never1999, author = {Never, Cy}, title = {Uncited}, year = {1999}, journal = {J}}
"""
TEMPLATE = (
    "{% macro list(items) %}{% for i in items %}({{ i.number }} {{ i.html }} #{{ i.id }}"
    "{{ list(i.children) }}){% endfor %}{% endmacro %}"
    "<title>{{ page.title_text }}</title><main><h1>{{ page.number }}|{{ page.title_html }}</h1>\n"
    "{{ page.body_html }}</main>"
    '<div id="toc">{{ list(page.toc) }}</div>'
    '<div id="side">{% for i in sidebar %}[{{ i.kind }} {{ i.number }} {{ i.title }} {{ i.href }}'
    "{% if i.current %} here{% endif %}]{% endfor %}</div>"
    '<div id="turn">{{ prev.href if prev else "-" }} {{ next.href if next else "-" }}</div>'
    '<div id="css">{{ css | join(" ") }} {{ root }}</div>'
)


class Made:
    """A rendered small book."""

    def __init__(self, root, site, report):
        self.root, self.site, self.report = root, site, report

    def page(self, href):
        return BeautifulSoup((self.site / href).read_text(encoding="utf-8"), "lxml")

    def text(self, href, selector="main"):
        page = self.page(href)
        for source in page.select("annotation"):
            source.decompose()
        found = " ".join(page.select_one(selector).get_text().split())
        return found.replace("\u00a0", " ")


@pytest.fixture
def make(tmp_path):
    """Write a book of the given pages and other files, render it with a bare template."""
    templates, media = tmp_path / "templates", tmp_path / "own-media"
    for folder in (templates, media / "site"):
        folder.mkdir(parents=True)
    (templates / "page.html.j2").write_text(TEMPLATE)
    (media / "site/site.css").write_text("body {}")

    def build(pages, files=(), config="", appendices=(), figures=None):
        root = tmp_path / "book"
        chapters = "".join(f"    - {path}\n" for path in pages if path not in appendices)
        listed = "".join(f"    - {path}\n" for path in appendices)
        text = f"project:\n  type: book\nbook:\n  title: B\n  chapters:\n{chapters}"
        text += f"  appendices:\n{listed}" if listed else ""
        for path, content in {**pages, **dict(files), "_quarto.yml": text + config}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        project = load_project(root)
        site = tmp_path / f"site{len(list(tmp_path.glob('site*')))}"
        site.mkdir()
        markdown = {chapter.path: project.source(chapter) for chapter in project.chapters}
        report = render_site(
            project, site, markdown, figures or {}, tmp_path / "cache", 2,
            templates=templates, media=media,
        )  # fmt: skip
        return Made(root, site, report)

    return build


def refusals(build, *arguments, **options):
    with pytest.raises(BookError) as refused:
        build(*arguments, **options)
    return [str(problem) for problem in refused.value.problems]


# Numbers and references.


def test_references_cross_pages_and_count_by_chapter(make):
    book = make(
        {
            "index.qmd": "# Preface {.unnumbered}\n\n@sec-b-one, @fig-b, @sec-c, @sec-aside.\n",
            "a.qmd": "# Alpha {#sec-a}\n\n## First\n\n$$x$$ {#eq-a}\n\n$$y$$ {#eq-a2}\n\n@eq-a2\n",
            "sub/b.qmd": "---\ntitle: Beta\n---\n\n## One {#sec-b-one}\n\n"
            "![Fig.](../d.svg){#fig-b}\n\n"
            "@sec-a and @eq-a2, [-@eq-a], [Eq. @eq-a], [@eq-a; @fig-b], @sec-aside, @sec-c.\n\n"
            "## Aside {#sec-aside .unnumbered}\n",
            "c.qmd": "# Gamma {#sec-c}\n\n## Deep {#sec-deep}\n\n@sec-deep, @sec-c\n",
        },
        {"d.svg": "<svg/>"},
        appendices=["c.qmd"],
    )
    assert book.text("index.html", "main p") == "One, Figure 2.1, Gamma, Aside."
    assert "Equation 1.2" in book.text("a.html")
    text = "Chapter 1 and Equation 1.2, 1.1, Eq. 1.1, Equation 1.1, Figure 2.1, Aside, Appendix A."
    assert book.text("sub/b.html", "main section > p") == text
    assert book.text("c.html", "main p") == "Section A.1, Appendix A"
    links = [a["href"] for a in book.page("sub/b.html").select("a.quarto-xref")]
    assert links[:3] == ["../a.html#sec-a", "../a.html#eq-a2", "../a.html#eq-a"]
    assert links[5] == "#fig-b"
    assert book.page("a.html").select_one("h1 #sec-a").text == "Alpha"


def test_a_page_knows_its_place_in_the_book(make):
    pages = {
        "index.qmd": "# Preface {.unnumbered}\n",
        "sub/a.qmd": "# *Alpha*\n\n## One\n\n### Sub $x$[^n] {#sub}\n\n#### Deeper\n\n"
        "## [Two](a.qmd)\n\n[^n]: N.\n",
        "b.qmd": "# Beta\n",
    }
    css = "format:\n  html:\n    css: style.css\n"
    book = make(pages, {"style.css": "b {}"}, css, appendices=["b.qmd"])
    assert book.text("sub/a.html", "title") == "Alpha"
    assert str(book.page("sub/a.html").select_one("h1 em")) == "<em>Alpha</em>"
    contents = "(1.1 One #one(1.1.1 Sub x #sub))(1.2 Two #two)"
    assert book.text("sub/a.html", "#toc") == contents
    assert book.page("sub/a.html").select("#toc a") == []
    side = "[chapter None Preface ../index.html][chapter 1 Alpha a.html here]"
    side += "[appendix-heading None Appendices None][chapter A Beta ../b.html]"
    assert book.text("sub/a.html", "#side") == side
    assert book.text("sub/a.html", "#turn") == "../index.html ../b.html"
    assert book.text("index.html", "#turn") == "- sub/a.html"
    assert book.text("sub/a.html", "#css") == "../style.css ../"
    assert (book.site / "style.css").read_text() == "b {}"


def test_labels_that_nothing_has_are_reported_with_their_lines(make):
    found = refusals(
        make,
        {"index.qmd": "# A\n\ntext\n\n@fig-none and\n[@sec-gone]\n", "b.qmd": "# B\n\n@eq-none\n"},
    )
    assert found == [
        "b.qmd:3: @eq-none refers to a label that nothing in this book has",
        "index.qmd:5: @fig-none refers to a label that nothing in this book has",
        "index.qmd:6: @sec-gone refers to a label that nothing in this book has",
    ]


def test_a_label_of_two_pages_is_reported_with_both_places(make):
    page = "\n## S {#sec-same}\n"
    found = refusals(make, {"index.qmd": f"# A\n{page}", "b.qmd": f"# B\n\ntext\n{page}"})
    assert found == [
        "b.qmd:5: the label sec-same is taken by index.qmd:3; give one of them another"
    ]


def test_a_label_twice_on_one_page_is_reported(make):
    figure = "\n![F](d.svg){#fig-same}\n"
    found = refusals(make, {"index.qmd": f"# A\n{figure}{figure}"}, {"d.svg": "<svg/>"})
    assert found == [
        "index.qmd:3: the label fig-same occurs twice on this page; give one of them another"
    ]


# Citations.


CITED = {
    "index.qmd": "# A\n\nSee @zoe2017.[^n]\n\n[^n]: Note.\n",
    "b.qmd": "# B\n\nSee [@abel2001, p. 3].\n",
}
BIB = {"references.bib": BIBLIOGRAPHY}


def test_without_a_page_of_references_each_page_shows_its_own(make):
    book = make(CITED, BIB, "bibliography: references.bib\n")
    index = book.page("index.html")
    assert [h.text for h in index.select("main h2")] == ["References"]
    assert [e["id"] for e in index.select(".csl-entry")] == ["ref-zoe2017"]
    assert index.select_one("a[role=doc-biblioref]")["href"] == "#ref-zoe2017"
    assert index.select_one("#refs").find_next(id="footnotes")
    assert [e["id"] for e in book.page("b.html").select(".csl-entry")] == ["ref-abel2001"]


def test_a_page_of_references_lists_the_whole_book_and_is_linked_from_all_pages(make):
    pages = {**CITED, "sub/refs.qmd": "# References {.unnumbered}\n\n::: {#refs}\n:::\n"}
    book = make(pages, BIB, "bibliography: references.bib\n")
    listed = [e["id"] for e in book.page("sub/refs.html").select(".csl-entry")]
    assert listed == ["ref-abel2001", "ref-zoe2017"]
    index = book.page("index.html")
    assert index.select_one("a[role=doc-biblioref]")["href"] == "sub/refs.html#ref-zoe2017"
    assert index.select_one("#refs").has_attr("hidden")
    assert index.select("h2") == []


def test_a_new_citation_renders_its_page_and_the_references_only(make):
    pages = {**CITED, "refs.qmd": "# References\n\n::: {#refs}\n:::\n"}
    config = "bibliography: references.bib\n"
    assert len(make(pages, BIB, config).report.rendered) == 3
    assert make(pages, BIB, config).report.rendered == ()
    pages["b.qmd"] += "\n@never1999\n"
    book = make(pages, BIB, config)
    assert book.report.rendered == ("b.qmd", "refs.qmd")
    assert book.page("refs.html").select_one("#ref-never1999")
    changed = {"references.bib": BIBLIOGRAPHY.replace("Uncited", "Cited")}
    assert len(make(pages, changed, config).report.rendered) == 3


def test_a_citation_without_an_entry_is_reported(make):
    page = "# A\n\nSee @zoe2017\nand @nobody-2001.\n"
    found = refusals(make, {"index.qmd": page}, BIB, "bibliography: references.bib\n")
    assert found == [
        "index.qmd:4: @nobody-2001 is not an entry of references.bib; "
        "a cross reference would begin with fig-, tbl-, lst-, eq- or sec-"
    ]


# Links and files.


def test_links_lead_to_pages_anchors_and_files_of_the_project(make):
    page = (
        "# A\n\n## One\n\n[a](sub/b.qmd#two) [b](#one) [c](data/x.csv) [d](https://e.org/f.qmd)\n"
    )
    other = "# B\n\n## Two\n\n[back](../index.qmd#one) [root](/index.qmd) ![](/d.svg) text\n"
    book = make({"index.qmd": page, "sub/b.qmd": other}, {"data/x.csv": "1", "d.svg": "<svg/>"})
    links = [a["href"] for a in book.page("index.html").select("main a")]
    assert links == ["sub/b.html#two", "#one", "data/x.csv", "https://e.org/f.qmd"]
    links = [a["href"] for a in book.page("sub/b.html").select("main a")]
    assert links == ["../index.html#one", "../index.html"]
    assert (book.site / "data/x.csv").read_text() == "1"
    assert book.page("sub/b.html").select_one("img")["src"] == "../d.svg"


def test_links_and_images_that_lead_nowhere_are_reported_with_their_lines(make):
    page = (
        "# A\n\n[a](none.qmd)\n[b](#nope)\n[c](b.qmd#nope)\n[d](../x.txt)\n[e](draft.qmd)\n\n"
        "![F](none.svg)\n\n![F](https://e.org/f.png)\n\n![F](../../f.png)\n"
    )
    found = refusals(make, {"index.qmd": page, "b.qmd": "# B\n"}, {"draft.qmd": "# Draft\n"})
    assert found == [
        "index.qmd:3: the link none.qmd leads nowhere",
        "index.qmd:4: the link #nope names an anchor that the page does not have",
        "index.qmd:5: the link b.qmd#nope names an anchor that the page does not have",
        "index.qmd:6: the link ../x.txt leads nowhere",
        "index.qmd:7: the link draft.qmd leads to a page that _quarto.yml does not list",
        "index.qmd:9: the image none.svg is not there",
        "index.qmd:11: the image https://e.org/f.png is no file of this book, "
        "and a page loads nothing from elsewhere",
        "index.qmd:13: the image ../../f.png lies outside the project",
    ]


def test_a_missing_frozen_figure_names_the_cell(make, tmp_path):
    page = "# A\n\n<!--\n#| label: fig-a\n-->\n\n![F](index_files/figure-html/fig-a-output-1.svg)\n"
    folder = tmp_path / "frozen/figure-html"
    folder.mkdir(parents=True)
    text = "the image index_files/figure-html/fig-a-output-1.svg is not among the frozen figures"
    found = refusals(make, {"index.qmd": page}, figures={"index.qmd": folder})
    assert found == [f"index.qmd:7: {text}; execute the chapter again"]
    (folder / "fig-a-output-1.svg").write_text("<svg/>")
    book = make({"index.qmd": page}, figures={"index.qmd": folder})
    assert (book.site / "index_files/figure-html/fig-a-output-1.svg").read_text() == "<svg/>"


def test_resources_and_assets_are_copied_and_hidden_files_are_not(make):
    files = {"extra/a.txt": "a", "extra/.b": "b", "x.dat": "x"}
    resources = "project:\n  type: book\n  resources: [extra, '*.dat']\n"
    book = make({"index.qmd": "# A\n"}, files)
    assert not (book.site / "extra").exists()
    config = (book.root / "_quarto.yml").read_text()
    (book.root / "_quarto.yml").write_text(config.replace("project:\n  type: book\n", resources))
    pages = {"index.qmd": "# A\n"}
    again = make_again(make, book, pages)
    found = sorted(p.relative_to(again).as_posix() for p in again.rglob("*") if p.is_file())
    assert found == [
        "404.html",
        "extra/a.txt",
        "index.html",
        "index.md",
        "llms.txt",
        "media/site/cards.js",
        "media/site/search-index.js",
        "media/site/site.css",
        "media/social-card.png",
        "x.dat",
    ]


def make_again(make, book, pages):
    """Render the folder of a made book as it now is."""
    project = load_project(book.root)
    site = book.site.with_name("again")
    site.mkdir()
    folder = book.site.parent
    render_site(
        project, site, pages, {}, folder / "cache", 1,
        templates=folder / "templates", media=folder / "own-media",
    )  # fmt: skip
    return site


def test_a_language_that_the_captions_do_not_speak_is_refused(make):
    (found,) = refusals(make, {"index.qmd": "# A\n"}, (), "lang: de\n")
    assert found.startswith("_quarto.yml:7: lang is de, but this build writes Figure")


def test_missing_assets_styles_filters_and_bibliography_are_named(make, tmp_path):
    config = "bibliography: none.bib\nfilters: [odd.lua, ours/claims.lua]\n"
    found = refusals(make, {"index.qmd": "# A\n"}, (), config)
    assert found[0].startswith("_quarto.yml:7: names none.bib, which does not exist")
    assert found[1].startswith(
        "_quarto.yml:8: lists the filter odd.lua, which this build does not run"
    )
    assert len(found) == 2
    (tmp_path / "own-media/site/site.css").unlink()
    (tmp_path / "own-media/site").rmdir()
    found = refusals(make, {"index.qmd": "# A\n"}, (), "format:\n  html:\n    css: none.css\n")
    assert found == [
        "_quarto.yml:9: none.css is not there",
        "media/site: is missing beside the code of this build; every page needs it",
    ]


# What pandoc and the filters refuse.


def test_a_refusal_has_the_line_of_the_source_though_execution_moved_it(make, tmp_path):
    source = "# A\n\n::: {.callout-odd}\nx\n:::\n"
    root = make({"index.qmd": "# A\n"}).root
    (root / "index.qmd").write_text(source)
    project = load_project(root)
    executed = {
        "index.qmd": "# A\n\nan output\n\nof three\n\nlines\n\n::: {.callout-odd}\nx\n:::\n"
    }
    with pytest.raises(BookError, match=r"^index\.qmd:3: `callout-odd` is not a kind of callout"):
        render_site(project, tmp_path / "none", executed, {}, tmp_path / "cache", 1)


def test_refusals_of_all_pages_are_reported_together_and_nothing_is_written(make):
    pages = {
        "index.qmd": "# A\n\n{{< include x >}}\n",
        "b.qmd": "# B\n\n<table></table>\n",
        "c.qmd": "# C\n\n::: {.own}\nnever closed\n",
    }
    found = refusals(make, pages)
    assert [re.match(r"\S+", text)[0] for text in found] == ["b.qmd:3:", "c.qmd:3:", "index.qmd:3:"]
    assert "Div unclosed" in found[1]


def test_unknown_front_matter_is_refused_with_its_line(make):
    page = "---\ntitle: A\nsubtitle: B\n---\n\ntext\n"
    (found,) = refusals(make, {"index.qmd": page})
    assert found.startswith("index.qmd:3: subtitle is a key of the front matter that this build")


def test_a_page_with_generated_tables_follows_the_freeze(make):
    results = Path("_freeze/b/execute-results")
    number = (
        '{"id": "n", "cell": "", "statement": "S", "shown": "7.07", "expected": "7", "tolerance": '
        '"0.1", "reason": "r", "source": "s", "deviation": 0.5}'
    )
    numbers = f'{{"format": 1, "chapter": "b.qmd", "title": "Beta", "numbers": [{number}]}}'
    pages = {"index.qmd": "# A\n\n::: {.verified-numbers}\n:::\n", "b.qmd": "# B\n"}
    book = make(pages, {f"{results}/numbers.json": numbers})
    index = book.page("index.html")
    assert index.select_one("#number-n td a")["href"] == "b.html"
    assert index.select_one("#number-n").find_parent("div")["class"] == ["table-responsive"]
    assert index.select_one("section#numbers-b h2").text == "1.1 Beta"
    book = make(pages, {f"{results}/numbers.json": numbers.replace("7.07", "7.08")})
    assert book.report.rendered == ("index.qmd",)
    assert book.page("index.html").select_one("#number-n td a").text == "7.08"
