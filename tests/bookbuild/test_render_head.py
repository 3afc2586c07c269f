"""A chapter that loads a script of its own: what its page gets, and what is refused."""

from pathlib import Path

import pytest

from bookbuild.project import load_project
from bookbuild.render_head import check_heads, head_of

SCRIPT = '<script defer src="../media/site/extra.js"></script>'
FILES = {"media/site/extra.js": Path("extra.js"), "media/site/extra.css": Path("extra.css")}


@pytest.fixture
def project(tmp_path):
    """A book whose one chapter has a line in its front matter, and a file with HTML."""

    def project(line, html=SCRIPT):
        for path, text in {
            "_quarto.yml": "project:\n  type: book\nbook:\n  title: B\n  chapters:\n"
            "    - index.qmd\n    - chapters/a.qmd\n",
            "index.qmd": "# Preface {.unnumbered}\n",
            "chapters/a.qmd": f'---\ntitle: "A"\n{line}\n---\n\nText.\n',
            "media/includes/extra.html": html,
        }.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return load_project(tmp_path)

    return project


def problems(book):
    return [str(problem) for problem in check_heads(book, FILES)]


def test_the_file_goes_into_the_head_of_its_page_alone(project):
    style = '<link rel="stylesheet" href="../media/site/extra.css">'
    book = project("include-in-header: ../media/includes/extra.html", f"{style}\n{SCRIPT}\n")
    assert problems(book) == []
    heads = {chapter.name: head_of(book, chapter) for chapter in book.chapters}
    assert heads == {"index": "", "a": f"{style}\n{SCRIPT}"}


def test_a_file_that_is_not_there_is_named_with_its_line(project):
    book = project("include-in-header: ../media/includes/other.html")
    assert problems(book) == [
        "chapters/a.qmd:3: include-in-header names ../media/includes/other.html, which is not there"
    ]


@pytest.mark.parametrize("address", ["../media/site/none.js", "https://example.org/x.js", "x.js"])
def test_only_files_of_the_site_are_loaded(project, address):
    html = f'<script defer src="{address}"></script>'
    (problem,) = problems(project("include-in-header: ../media/includes/extra.html", html))
    assert problem.endswith(f"loads {address}, which is no file of this site")
    assert problem.startswith("media/includes/extra.html:")


@pytest.mark.parametrize("html", ["<script>alert(1)</script>", "<style>p {}</style>"])
def test_code_in_the_file_itself_is_refused(project, html):
    (problem,) = problems(project("include-in-header: ../media/includes/extra.html", html))
    assert "holds a script or style of its own" in problem


@pytest.mark.parametrize(
    "line", ["include-in-header: [a.html]", "include-in-header:\n  text: <b>x</b>"]
)
def test_other_forms_that_quarto_knows_are_refused(project, line):
    (problem,) = problems(project(line))
    assert "include-in-header takes the path of one file, got" in problem
