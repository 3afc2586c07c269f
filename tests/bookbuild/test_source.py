"""A chapter's text is taken apart without loss, and what is not known is refused with its line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookbuild.problems import BookError
from bookbuild.project import Chapter, Project
from bookbuild.source import Cell, Prose, parse

timeless = settings(deadline=None)  # a busy machine is not a failure

FRONT = '---\ntitle: "T"\n---\n'
CELL = "```{python}\n#| label: one\nx = 1\n```\n"


def problems(text: str) -> list[str]:
    with pytest.raises(BookError) as caught:
        parse("c.qmd", text)
    return [str(problem) for problem in caught.value.problems]


def test_pieces_of_a_small_chapter_with_their_lines():
    text = f"{FRONT}\nBefore.\n\n{CELL}\nAfter,\nstill.\n"
    source = parse("c.qmd", text)
    front, before, cell, after = source.pieces
    assert front == Prose(FRONT.rstrip("\n"), 1)
    assert before == Prose("Before.", 5)
    assert cell == Cell("x = 1", 7, 9, {"label": "one"})
    assert after == Prose("After,\nstill.", 12)
    assert (source.title, source.meta) == ("T", {"title": "T"})


def test_prose_at_the_very_start_and_end_needs_no_blank_lines():
    first, cell, last = parse("c.qmd", f"First.\n{CELL}Last.").pieces
    assert (first.text, cell.line, last.text, last.line) == ("First.", 2, "Last.", 6)


def test_title_without_front_matter_is_the_first_heading():
    assert parse("c.qmd", "# A *title* {#sec-a .unnumbered}\n").title == "A *title*"


def test_hash_is_the_md5_of_the_text():
    # printf 'x\n' | md5sum
    assert parse("c.qmd", "x\n").md5 == "401b30e3b8b5d629635a5c613cdb7919"


def test_windows_line_endings_and_a_byte_order_mark_change_nothing(tmp_path):
    (tmp_path / "c.qmd").write_bytes(b"\xef\xbb\xbf" + f"{FRONT}\n{CELL}".encode())
    (tmp_path / "d.qmd").write_bytes(f"{FRONT}\n{CELL}".replace("\n", "\r\n").encode())
    project = Project(tmp_path, "T", ())
    texts = [project.source(Chapter(name)) for name in ("c.qmd", "d.qmd")]
    assert texts == [f"{FRONT}\n{CELL}"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```{python}\nx\n```\n", "c.qmd:1: cell without a label"),
        (f"{CELL}\n\n{CELL}", "c.qmd:8: label one is taken by the cell on line 1; rename one"),
        (
            "```{python}\n#| label: a\n#| fig-captoin: b\n```\n",
            "c.qmd:3: cell option fig-captoin is not known to this build",
        ),
        (
            "```{python}\n#| label: a\n#| echo: fenced\n```\n",
            "c.qmd:3: echo takes bool, got 'fenced'",
        ),
        (
            "```{python}\n#| label: a\n#| layout-ncol: true\n```\n",
            "c.qmd:3: layout-ncol takes int, got True",
        ),
        (
            "```{python}\n#| label: a\n#| output: raw\n```\n",
            "c.qmd:3: output takes true, false or asis, got 'raw'",
        ),
        (
            "```{python}\n#| label: Two Words\n```\n",
            "c.qmd:2: label 'Two Words' must be lower-case",
        ),
        ("```{python}\n#| label: a\n#| echo: [\n```\n", "c.qmd:4: cell options are not YAML"),
        ("```{python}\n#| just words\n```\n", "c.qmd:2: cell options must be `key: value` lines"),
        ("\n\n```{python}\n#| label: a\nx = 1\n", "c.qmd:3: this cell is never closed"),
        ("---\ntitle: T\n\nText.\n", "c.qmd:1: the front matter is never closed"),
        ("---\ntitle: T: U\n---\n", "c.qmd:2: front matter are not YAML"),
        ("---\ntitle: T\njupyter: x\n---\n", "c.qmd:3: front matter key jupyter is unknown"),
        (
            "---\ntitle: T\nexecute:\n  echo: false\n---\n",
            "c.qmd:3: front matter key execute is unknown",
        ),
        ("```{r}\n#| label: a\n```\n", "c.qmd:1: cells are {python}, got {r}"),
        ("```{mermaid}\nx\n```\n", "c.qmd:1: cells are {python}, got {mermaid}"),
        (
            "```{python, echo=FALSE}\n#| label: a\n```\n",
            "c.qmd:1: write cell options as `#| key: value` lines below the fence",
        ),
        ("~~~{python}\n#| label: a\n~~~\n", "c.qmd:1: a cell's fence is ``` in the first column"),
        (
            "- a\n\n  ```{python}\n  x\n  ```\n",
            "c.qmd:3: a cell's fence is ``` in the first column",
        ),
        (f"{CELL}\n\nA {{{{< video x >}}}}.\n", "c.qmd:7: shortcode {{< video x >}} is not known"),
        ("Text\n\nis `{python} 1`.\n", "c.qmd:3: an inline expression needs a code cell before it"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text, message):
    assert any(problem.startswith(message) for problem in problems(text)), problems(text)


def test_a_character_that_yaml_forbids_is_a_message_and_no_traceback():
    assert problems("---\ntitle: \x07\n---\n")[0].startswith("c.qmd:2: front matter are not YAML")


def test_all_problems_come_together_sorted_by_line():
    text = "```{python}\nx\n```\n\n{{< a >}}\n\n```{r}\n#| label: b\n```\n"
    assert [problem.split(":")[1] for problem in problems(text)] == ["1", "5", "7"]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n",
        "``` {.python filename='a.py'}\nx = 1\n```\n",
        "````markdown\n```{python}\nx = 1\n```\n````\n",
        "~~~\n```{python}\n```\n~~~\n",
        "Write `` ```{python} `` to begin a cell, and `{{python}} x` in prose.\n",
        "```{=html}\n<b>x</b>\n```\n",
        "``` {{python}}\nx\n```\n",
    ],
)
def test_what_only_looks_like_a_cell_is_prose(text):
    source = parse("c.qmd", text)
    assert source.cells == () and not source.executable


def test_shortcodes_in_code_are_no_shortcodes():
    text = "```\n{{< video x >}}\n```\n\nUse `{{< video x >}}` elsewhere.\n"
    assert parse("c.qmd", text).cells == ()


def test_inline_expressions_are_found_with_their_places():
    text = '`{python} a` and `{python} say("b")`, not `` `{{python}} c` `` nor ``{python} d``.'
    prose = parse("c.qmd", f"{CELL}\n{text}\n").pieces[1]
    assert [inline.expression for inline in prose.inlines] == ["a", 'say("b")']
    assert [prose.text[i.start : i.end] for i in prose.inlines] == [
        "`{python} a`",
        '`{python} say("b")`',
    ]


def test_a_cell_is_the_same_cell_wherever_it_stands_and_another_with_other_options():
    moved = parse("c.qmd", f"Text.\n\n{CELL}").cells[0]
    other = parse("c.qmd", CELL.replace("one\n", "one\n#| echo: false\n")).cells[0]
    here = parse("c.qmd", CELL).cells[0]
    assert here.key == moved.key != other.key


words = st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="`{}~"))
lines = words.filter(lambda line: line.strip() and not line.startswith(("---", "...", "#|")))
code = st.lists(lines.filter(lambda line: not line.startswith("#|")), min_size=1, max_size=4)
inert = st.sampled_from(["```python\n```", "````\n```{python}\n```\n````", "~~~\nx\n~~~"])
paragraphs = st.lists(lines, min_size=1, max_size=3).map("\n".join)


@timeless
@given(st.lists(st.one_of(paragraphs, inert, code), min_size=1, max_size=7))
def test_a_document_put_together_from_pieces_comes_apart_into_them(pieces):
    parts, expected, line, labels = [], [], 1, 0
    for piece in pieces:
        if isinstance(piece, list):
            labels += 1
            text = "\n".join(["```{python}", f"#| label: cell-{labels}", *piece, "```"])
            expected.append(("cell", "\n".join(piece), line))
        else:
            text = piece
            if expected and expected[-1][0] == "prose":
                kind, before, start = expected.pop()
                expected.append((kind, f"{before}\n\n{text}", start))
            else:
                expected.append(("prose", text, line))
        parts.append(text)
        line += text.count("\n") + 2
    found = [
        ("cell", piece.code, piece.line)
        if isinstance(piece, Cell)
        else ("prose", piece.text, piece.line)
        for piece in parse("c.qmd", "\n\n".join(parts)).pieces
    ]
    assert found == expected
