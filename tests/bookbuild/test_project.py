"""`_quarto.yml` says which chapters there are; what is not understood is refused with its line."""

import pytest

from bookbuild.problems import BookError
from bookbuild.project import load_project

GOOD = """\
project:
  type: book
  output-dir: _site
book:
  title: "T"
  author: "A"
  chapters:
    - index.qmd
    - part: "First part"
      chapters:
        - chapters/one.qmd
        - chapters/two.qmd
  appendices:
    - chapters/three.qmd
bibliography: [a.bib, b.bib]
execute:
  freeze: auto
format:
  html:
    fig-format: png
"""
NAMES = ("index", "chapters/one", "chapters/two", "chapters/three")


@pytest.fixture
def load(tmp_path):
    (tmp_path / "chapters").mkdir()
    for name in NAMES:
        (tmp_path / f"{name}.qmd").write_text("# Title\n")
    (tmp_path / "index.qmd").write_text("# Preface {.unnumbered}\n")

    def load(text=GOOD):
        path = tmp_path / "_quarto.yml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_project(tmp_path)

    return load


def test_chapters_parts_appendices_and_their_numbers(load):
    found = [(c.path, c.number, c.part, c.name, c.href) for c in load().chapters]
    assert found == [
        ("index.qmd", None, None, "index", "index.html"),
        ("chapters/one.qmd", "1", "First part", "one", "chapters/one.html"),
        ("chapters/two.qmd", "2", "First part", "two", "chapters/two.html"),
        ("chapters/three.qmd", "A", None, "three", "chapters/three.html"),
    ]


def test_other_settings(load):
    project = load()
    assert (project.title, project.author, project.output_dir) == ("T", ("A",), "_site")
    assert project.bibliography == ("a.bib", "b.bib")
    assert project.html == {"fig-format": "png"}


def test_a_chapter_is_found_by_its_name_and_by_its_path(load):
    project = load()
    assert project.chapter("two") == project.chapter("chapters/two.qmd")
    with pytest.raises(
        KeyError, match="no chapter is called 'tow'; there are: index, one, two, thr"
    ):
        project.chapter("tow")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("author:", "autor:", "_quarto.yml:6: book.autor is not known to this build; known: appen"),
        ("fig-format", "fig-frmat", "_quarto.yml:20: format.html.fig-frmat is not known"),
        ("  html:", "  pdf:", "_quarto.yml:19: format.pdf is not known to this build; known: html"),
        ("type: book", "type: website", "_quarto.yml:2: project.type must be book"),
        ("  type: book\n", "  typ: book\n", "_quarto.yml: project.type must be book"),
        (GOOD[: GOOD.index("book:\n  title")], "project: book\n", "_quarto.yml:1: project must"),
        ("freeze: auto", "echo: false", "_quarto.yml:17: execute.echo is not known to this build"),
        ("freeze: auto", "freeze: true", "_quarto.yml:17: execute.freeze must be auto, got True"),
        ("  title:", " title:", "_quarto.yml:6: is not YAML"),
        ("two.qmd", "tow.qmd", "_quarto.yml:12: lists chapters/tow.qmd, which does not exist"),
        ("chapters/two.qmd", "chapters/one.qmd", "_quarto.yml:11: two chapters are called one"),
        ("chapters/two.qmd", "two.ipynb", "_quarto.yml:7: book.chapters lists 'two.ipynb'"),
        ("chapters/two.qmd", "5", "_quarto.yml:7: book.chapters lists 5; it takes .qmd files"),
        ("    - index.qmd", "    - text: index.qmd", "_quarto.yml:7: book.chapters lists {'text'"),
        ("chapters/two.qmd", "../two.qmd", "_quarto.yml:12: ../two.qmd must be relative to the"),
        ("chapters/two.qmd", "/two.qmd", "_quarto.yml:12: /two.qmd must be relative to the"),
        ("_site", "..", "_quarto.yml:3: output-dir must be a folder of its own, got .."),
        ("_site", ".", "_quarto.yml:3: output-dir must be a folder of its own, got ."),
        ("_site", "media", "_quarto.yml:3: output-dir must be a folder of its own, got media"),
        ("_site", "/srv/x", "_quarto.yml:3: output-dir must be a folder of its own, got /srv/x"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_line(load, old, new, message):
    assert old in GOOD
    with pytest.raises(BookError) as caught:
        load(GOOD.replace(old, new, 1))
    messages = [str(problem) for problem in caught.value.problems]
    assert any(found.startswith(message) for found in messages), messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "_quarto.yml:1: must be a mapping with the keys project and book"),
        ("- a\n", "_quarto.yml:1: must be a mapping with the keys project and book"),
        ("project:\n  type: book\n", "_quarto.yml: book.chapters must list the chapters"),
        ("project:\n  type: book\nbook:\n", "_quarto.yml:3: book.chapters must list the chapters"),
        (
            "project:\n  type: book\nbook:\n  chapters: index.qmd\n",
            "_quarto.yml:4: book.chapters must be a list",
        ),
        ("project:\n  type: \x07\n", "_quarto.yml: is not YAML"),
        (b"project: \xff\n", "_quarto.yml: is not UTF-8"),
    ],
)
def test_a_file_that_is_no_book_is_refused_without_a_traceback(load, text, message):
    with pytest.raises(BookError) as caught:
        load(text)
    assert str(caught.value.problems[0]).startswith(message)


def test_a_folder_without_a_book_says_what_to_do(tmp_path):
    with pytest.raises(
        BookError, match=r"^_quarto.yml: not found in .*; give a book's folder with -C"
    ):
        load_project(tmp_path)


def test_a_chapter_whose_freeze_would_lie_in_another_s_is_refused(load, tmp_path):
    (tmp_path / "chapters.qmd").touch()
    with pytest.raises(BookError, match=r"chapters/one.qmd lies in the freeze of chapters.qmd"):
        load(GOOD.replace("index.qmd", "chapters.qmd", 1))
