"""Numbers typed into prose are found, with their line; what may be typed is left alone."""

import random
import re
from pathlib import Path

import pytest

from bookbuild.build import build, plan
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.prose import measured, numbers_in_diagram, typed_numbers, unowned, value_of
from bookbuild.reading import markdown
from bookbuild.source import parse
from ledger.entries import LEDGER as LEDGER_FILE
from ledger.entries import Entry, load_constants, load_ledger

ROOT = Path(__file__).resolve().parents[2]
LEDGER = {
    "pe-norm": Entry("pe-norm", "Norm", 7.0711, 1e-4, "float32", "here", ".4f"),
    "base-parameters": Entry("base-parameters", "Count", 63_082_496, 0, "a count", "here", ",d"),
    "share": Entry("share", "Share", [0.125, 0.0412], 0, "a count", "here", ".1%"),
}


def found(prose: str, constants=()) -> list[str]:
    cell = "```{python}\n#| label: a\n```" if "{python}" in prose else ""
    source = parse("chapters/x.qmd", f"---\ntitle: About that\n---\n\n{prose}\n\n{cell}")
    return [str(one) for one in typed_numbers(source, LEDGER, dict.fromkeys(constants, "why"))]


def numbers(prose: str) -> list[str]:
    return [re.search(r": (.*) is typed", one)[1] for one in found(prose)]


def test_a_typed_decimal_is_named_with_its_line_and_the_nearest_entry():
    assert found("One.\n\nEach row is 7.08 long.") == [
        "chapters/x.qmd:7: 7.08 is typed; compute it in a cell, check it, and say it; "
        "nearest: pe-norm"
    ]


@pytest.mark.parametrize(
    "text, number",
    [
        # decimals
        ("it is 1.5, not two", "1.5"),
        ("a deviation of −0.5.", "0.5"),
        ("a deviation of .5 or so", ".5"),
        ("a share of 0,25", "0,25"),
        ("it is 7,08 long", "7,08"),
        ("it is **7.08** long", "7.08"),
        ("it is _7.08_ long", "7.08"),
        ("it is 7\\.08 long", "7.08"),
        ("it is 7&#46;08 long", "7.08"),
        ("it is ７.０８ long", "７.０８"),
        ("±0.05", "±0.05"),
        ("a band of ± 2", "± 2"),
        ("$\\sqrt{50} = 7.0711$", "7.0711"),
        ("$\\approx 12$ of them", "≈ 12"),
        ("$x\\approx7.08$", "≈ 7.08"),
        ("≈12 of them", "≈12"),
        # percentages
        ("about 4 % of it", "4 %"),
        ("about 99.5% of it", "99.5%"),
        ("about 5 per cent", "5 per cent"),
        ("half of 12 percent", "12 percent"),
        ("half of 12\npercent", "12 percent"),
        ("$12\\%$", "12%"),
        ("3 ‰", "3 ‰"),
        # powers
        ("an error of 1e-6", "1e-6"),
        ("an error of 3.6×10⁻⁷", "3.6×10⁻⁷"),
        ("an error of 10⁻⁹", "10⁻⁹"),
        ("an error of 10**-9", "10**-9"),
        ("$10^{-9}$", "10^{-9}"),
        ("$3.6 \\times 10^{-7}$", "3.6 × 10^{-7}"),
        ("$3\\cdot10^6$ pairs", "3× 10^6"),
        ("2³² of them", "2³²"),
        # thousands, and long numbers
        ("63,082,496 parameters", "63,082,496"),
        ("63 082 496 parameters", "63 082 496"),
        ("63\u202f082\u202f496 parameters", "63 082 496"),
        ("63\u00a0082\u00a0496 parameters", "63 082 496"),
        ("63’082’496 parameters", "63’082’496"),
        ("$63{,}082{,}496$", "63,082,496"),
        ("$63\\,082\\,496$", "63 082 496"),
        ("63&nbsp;082&nbsp;496 parameters", "63 082 496"),
        ("63082496 parameters", "63082496"),
        ("12345.6 of them", "12345.6"),
        # factors, magnitudes, units, fractions
        ("8.6× as fast", "8.6×"),
        ("28× as fast", "28×"),
        ("it is 28x faster", "28x"),
        ("speeds up (×28)", "×28"),
        ("a 28-fold increase", "28-fold"),
        ("8 times as many", "8 times as"),
        ("8 times faster", "8 times faster"),
        ("65M parameters", "65M"),
        ("1.5k steps", "1.5k"),
        ("65 million parameters", "65 million"),
        ("12 ms a step", "12 ms"),
        ("64 MB of it", "64 MB"),
        ("an angle of 42°", "42°"),
        ("½ of it", "½"),
        ("2½ of it", "2½"),
        ("about 1/3 of the weight", "1/3"),
    ],
)
def test_every_form_of_a_measured_number_is_found(text, number):
    assert numbers(text) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "| a | 0.25 |\n|:--|:--|\n| b | c |",
        "+---+------+\n| a | 0.25 |\n+---+------+",
        "## A heading of 0.25 {#sec-x}",
        "# A title of 0.25",
        "- a list\n    - of 0.25",
        "> quoted, 0.25",
        "A note.[^n]\n\n[^n]: It is 0.25.",
        "A note.^[It is 0.25.]",
        "Term\n:   it is 0.25",
        "A [link of 0.25](https://example.org/v1.2).",
        'A [link](https://example.org "0.25 of it").',
        "![A picture of 0.25.](media/x.svg){width=100}",
        '![A picture.](media/x.svg){fig-alt="It shows 0.25." width=100}',
        ": A caption of 0.25 {#tbl-x}",
        "::: {.callout-note title='It is 0.25'}\nText.\n:::",
        "::: {.callout-note}\n## It is 0.25\n:::",
        "::: {.column-margin}\nIt is 0.25.\n:::",
        "$$\nx = 0.25\n$$ {#eq-x}",
        "A formula $x = 0.25$.",
        "Text <b>0.25</b> in tags.",
        "[0.25]{.smallcaps}",
        "~~0.25~~ and more",
    ],
)
def test_no_place_of_a_chapter_hides_a_number(text):
    assert numbers(text) == ["0.25"], text


@pytest.mark.parametrize(
    "text",
    [
        "three, 12 and 512 columns, the base $10000^{2i/d}$, $10000^{2/8}$ and $x^{10}$",
        "$x_{1,2}$, $(0,1)$, an interval [0,1] and a shape (2, 100, 100)",
        "32 × 32 weights, 3 × 4 and 2×3, seeds 0 to 4",
        "columns $2k$ and 2k + 1, and $2M$ of them",
        "in 2017, 1998 and 2024; 4096 tokens, 65 of them",
        "Keras 3.15 and TensorFlow 2.21.0, under Python 3.11, 3.12 or 3.13",
        "GPT-3.5, GloVe 6B, UTF-8, float32, L6-v2 and Llama-3.1",
        "[@vaswani2017, section 3.2.3], equation 2.1 and table 4.2",
        "sections 3.2.1 and 3.2.3, figures 2.1 to 2.4, appendix B.2, § 4.1",
        "`0.5` in code, ``0.5 ` 0.6``, and `{python} say('pe-norm')` %",
        "a [link](https://example.org/v1.2/page(3.4)) and <https://example.org/1.5>",
        "see https://example.org/1.5, doi:10.1234/5.6 and 10.18653/v1/2020.1",
        "[text]{.small data-x='0.5'} and ![text](x-0.5.svg){width=0.5}",
        "<!-- 0.5 -->",
        "licence CC BY 4.0, version 1.2",
        "arXiv:1706.03762 and arXiv: 1706.03762v2",
        "@keras-15390 and [@devlin2019; @a1.5]",
        "```\n0.5\n```\n\n~~~~ {.text}\n0.5\n~~~\n0.6\n~~~~",
        "[nearly half]{.worded data-claim='x'} and [0.5]{.worded data-claim='x'}",
        "one in a hundred, 1 in 20, a dozen, twice, 3 times",
        "rows 1, 2 and 3; keys 3 to 7; step 4000",
        "1. first\n2. second",
    ],
)
def test_what_is_no_measurement_may_be_typed(text):
    assert numbers(text) == []


@pytest.mark.parametrize(
    "options, expected",
    [
        ('#| fig-cap: "Half is 0.5."', [(3, "0.5")]),
        ("#| fig-cap: |\n#|   One line,\n#|   then 0.5.\n#| fig-alt: none", [(5, "0.5")]),
        ("#| fig-cap: >-\n#|   some 12\n#|   percent of it", [(4, "12 percent")]),
        ('#| fig-alt: ["0.25 of it", "nothing"]', [(3, "0.25")]),
        ('#| fig-subcap:\n#|   - "none"\n#|   - "0.25"', [(5, "0.25")]),
        ('#| fig-cap: "it is \\u00bd of it"', [(3, "½")]),
        ("#| code-summary: 'About 0.25'", [(3, "0.25")]),
        ("#| fig-width: 7.5\n#| tbl-cap: fine", []),
    ],
)
def test_options_that_a_reader_sees_are_read_on_their_own_lines(options, expected):
    source = parse("x.qmd", f"```{{python}}\n#| label: fig-a\n{options}\n1\n```")
    problems = list(typed_numbers(source, LEDGER, {}))
    assert [(p.line, p.text.split(" is typed")[0]) for p in problems] == expected


@pytest.mark.parametrize(
    "code, expected",
    [
        ('Markdown("About 0.25 of it")', [(3, "0.25")]),
        ('Markdown(\n    "All of it, "\n    f"or 0.25, {x:.2f}"\n)', [(5, "0.25")]),
        ('display(Markdown("""\n| a |\n| 0.25 |\n"""))', [(5, "0.25")]),
        ('ax.annotate("7.08", xy=(0.5, 0.5))', [(3, "7.08")]),
        ('ax.set(title="28× as fast", ylim=(0, 1.35))', [(3, "28×")]),
        ('ax.plot(x, y, label="slope 2.01", color="0.3")', [(3, "2.01")]),
        ('ax.text(0.5, 0.5, f"{x:.2f}", fontsize=7.5)', []),
        ('ax.plot(x, color="#0a636d", linestyle=(0, (1.5, 2)))', []),
        ('y = "0.25"; print(f"{y:5.2f}", sep="0.5")', []),
        ("rate = 0.25  # or 0.5", []),
        ('table("0.25")', []),
    ],
)
def test_code_is_read_only_where_it_writes_prose_or_into_a_figure(code, expected):
    source = parse("x.qmd", f"```{{python}}\n#| label: a\n{code}\n```")
    problems = list(typed_numbers(source, LEDGER, {}))
    assert [(p.line, p.text.split(" is typed")[0]) for p in problems] == expected


def test_the_front_matter_is_read_but_for_what_only_the_build_reads():
    text = "---\ntitle: About\ndescription: >\n  a book\n  of 0.25\ntoc: 0.5\n---\n\nText.\n"
    problems = list(typed_numbers(parse("x.qmd", text), LEDGER, {}))
    assert [(p.line, p.text[:4]) for p in problems] == [(5, "0.25")]


@pytest.mark.parametrize(
    "text, value",
    [
        ("7.08", 7.08),
        ("63,082,496", 63_082_496),
        ("12 %", 0.12),
        ("65M", 65e6),
        ("3.6×10⁻⁷", 3.6e-7),
        ("10^{-9}", 1e-9),
        ("2³²", 2.0**32),
        ("1e-6", 1e-6),
        ("0,25", 0.25),
        ("10^99999", None),
    ],
)
def test_a_number_is_understood_well_enough_to_find_its_entry(text, value):
    (one,) = measured(markdown(text, 1))
    assert value_of(one) == (value if value is None else pytest.approx(value, rel=1e-12))


@pytest.mark.parametrize(
    "text, id",
    [("7.1", "pe-norm"), ("63.1 million", "base-parameters"), ("12.4 %", "share")],
)
def test_the_nearest_entries_are_named_whatever_the_form(text, id):
    assert found(f"It is {text}.")[0].endswith(f"nearest: {id}")


def test_a_constant_with_a_reason_may_be_typed_and_only_as_it_is_listed():
    assert found("The rate is 0.1.", ["0.1"]) == []
    assert len(found("The rate is 0.10.", ["0.1"])) == 1
    assert found("It has 65 million.", ["65 million"]) == []


SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1.5 2.5" aria-label="{label}">
  <title>A title{title}</title>
  <rect x="0.5" width="63.5"/>
  <text x="1.5">one <tspan>
    two{text}</tspan></text>
  <text data-claim="{claim}">{said}</text>
</svg>
"""


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, []),
        ({"title": " of 0.25"}, ["media/x.svg:2: 0.25 is typed"]),
        ({"label": "0.25"}, ["media/x.svg:1: 0.25 is typed"]),
        ({"text": " 0.25"}, ["media/x.svg:5: 0.25 is typed"]),
        ({"said": "7.08"}, ["media/x.svg:6: says 7.08, where pe-norm is 7.0711"]),
        ({"claim": "pe-nrm"}, ["media/x.svg:6: the ledger has no entry pe-nrm"]),
        ({"text": " <"}, ["media/x.svg:5: is not XML"]),
    ],
)
def test_texts_of_a_diagram_are_read_and_its_geometry_is_not(tmp_path, change, expected):
    path = tmp_path / "media/x.svg"
    path.parent.mkdir()
    fields = {"label": "", "title": "", "text": "", "claim": "pe-norm", "said": "7.0711", **change}
    path.write_text(SVG.format(**fields), encoding="utf-8")
    problems = [str(one) for one in numbers_in_diagram(tmp_path, path, LEDGER, {})]
    assert [one[: len(e)] for one, e in zip(problems, expected, strict=True)] == expected


# ---- The build ----


@pytest.mark.parametrize(
    "path, old, new, line",
    [
        ("chapters/one.qmd", "Between them.", "Between them, 7.08.", 13),
        ("index.qmd", "Hello.", "Hello, 7.08.", 3),
        ("_quarto.yml", "A small book", "A book of 7.08", 4),
    ],
)
def test_a_typed_number_turns_the_build_red_with_its_line(tmp_path, books, path, old, new, line):
    root = books.write(tmp_path)
    assert plan(load_project(root)).stale  # so far it is well
    books.edit(root / path, old, new)
    with pytest.raises(BookError, match=rf"^{re.escape(path)}:{line}: 7\.08 is typed"):
        build(load_project(root), jobs=1, render=False)


def test_a_diagram_with_a_typed_number_turns_the_build_red(tmp_path, books):
    root = books.write(tmp_path)
    (root / "media/a.svg").write_text("<svg>\n<text>7.08</text></svg>")
    with pytest.raises(BookError, match=r"^media/a\.svg:2: 7\.08 is typed"):
        plan(load_project(root))


def test_this_book_has_no_number_that_nothing_owns():
    project = load_project(ROOT)
    sources = [parse(chapter.path, project.source(chapter)) for chapter in project.chapters]
    ledger, constants = load_ledger(ROOT / LEDGER_FILE), load_constants(ROOT / LEDGER_FILE)
    assert len(sources) > 5 and len(ledger) > 400
    assert [str(one) for one in unowned(project, sources, ledger, constants)] == []


def test_a_number_added_to_any_paragraph_of_this_book_is_found_on_its_line():
    project, seed = load_project(ROOT), random.Random(0)
    tried = 0
    for chapter in project.chapters:
        text = project.source(chapter)
        lines = text.split("\n")
        paragraphs = [n for n, line in enumerate(lines) if re.match(r"[A-Z][^|]{60,}$", line)]
        for number in seed.sample(paragraphs, min(4, len(paragraphs))):
            changed = [*lines]
            changed[number] += " It is 7.08."
            source = parse(chapter.path, "\n".join(changed))
            problems = [one for one in typed_numbers(source, {}, {}) if "7.08 is" in one.text]
            assert [one.line for one in problems] == [number + 1], lines[number]
            tried += 1
    assert tried >= 20


def test_what_was_read_is_not_read_again_until_something_changes(tmp_path, books, monkeypatch):
    root = books.write(tmp_path)
    (root / ".book").mkdir()
    read = []

    def counted(source, ledger, constants):
        read.append(source.path)
        return typed_numbers(source, ledger, constants)

    monkeypatch.setattr("bookbuild.prose.typed_numbers", counted)

    def paths_read() -> list[str]:
        read.clear()
        plan(load_project(root))
        return list(read)

    assert len(paths_read()) == 3
    assert paths_read() == []
    books.edit(root / "index.qmd", "Hello.", "Hello again.")
    assert paths_read() == ["index.qmd"]
    books.edit(root / "ledger.toml", "Twice 21", "Two times 21")
    assert len(paths_read()) == 3
    (root / ".book/read.json").write_text("{broken")
    assert len(paths_read()) == 3
    assert paths_read() == []


def test_a_source_with_a_typed_number_is_never_noted_as_read(tmp_path, books):
    root = books.write(tmp_path)
    (root / ".book").mkdir()
    books.edit(root / "index.qmd", "Hello.", "Hello, 7.08.")
    for _ in range(2):
        with pytest.raises(BookError, match=r"^index\.qmd:3: 7\.08"):
            plan(load_project(root))
