"""Links inside a site: each to a file and an id that are there; nothing loaded from elsewhere."""

import pytest
from click.testing import CliRunner

from bookbuild.cli import main
from bookbuild.site_links import problems_of_links


@pytest.fixture
def site(tmp_path):
    """Pages with every kind of good link; the function adds a line to the first and checks all."""
    (tmp_path / "chapters/pictures").mkdir(parents=True)
    (tmp_path / "chapters/pictures/a b.svg").write_text("<svg/>")
    (tmp_path / "style.css").write_text("")
    (tmp_path / "chapters/two.html").write_text('<h1 id="größe">2</h1><a name="old"></a>\n')
    good = """\
<link rel="stylesheet" href="style.css"><link rel="next" href="chapters/two.html">
<link rel="canonical" href="https://book.example/"><h1 id="top">1</h1>
<a href="#top">.</a><a href="">.</a><a href="#">.</a><a href="mailto:a@b.example">.</a>
<a href="chapters/two.html#gr%C3%B6%C3%9Fe">.</a><a href="chapters/two.html?q=1#old">.</a>
<a href="https://elsewhere.example/#x">.</a><a href="./">.</a><a href="/chapters/two.html">.</a>
<img src="chapters/pictures/a%20b.svg"><img src="data:image/png;base64,AA">
"""
    page = tmp_path / "index.html"
    page.write_text(good)
    assert problems_of_links(tmp_path) == []

    def check(line):
        page.write_text(good + line)
        return problems_of_links(tmp_path)

    check.folder = tmp_path
    return check


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('<a href="chapters/three.html">', "leads to chapters/three.html, which is not there"),
        ('<a href="chapters/">', "leads to chapters/, which is not there"),
        ('<a href="#botom">', "leads to #botom, but nothing there has the id botom"),
        (
            '<a href="chapters/two.html#top">',
            "leads to chapters/two.html#top, but nothing there has the id top",
        ),
        ('<a href="../index.html">', "leads to ../index.html, which is outside of the site"),
        ('<img src="b.svg">', "leads to b.svg, which is not there"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "loads https://cdn.example/x.js; a page loads nothing from another site",
        ),
        (
            '<link href="//fonts.example/f.css" rel="preload Stylesheet">',
            "loads //fonts.example/f.css; a page loads nothing from another site",
        ),
    ],
)
def test_what_leads_nowhere_or_loads_from_elsewhere(site, line, text):
    assert site(line) == [f"index.html:7: {text}"]


def test_the_command_checks_links_too(site, executed):
    site('<a href="nowhere.html">')
    result = CliRunner().invoke(main, ["check-site", "-C", str(executed), str(site.folder)])
    assert "index.html:7: leads to nowhere.html, which is not there" in result.stderr
    assert result.exit_code == 1
