"""Numbers that prose says in words: marked ones are compared, some must be marked."""

import pytest

from bookbuild.build import build
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.source import parse
from bookbuild.worded import check_words, unmarked, worded_of
from ledger.entries import Entry

LEDGER = {
    "cost": Entry("cost", "Cost", 8.97, 0.01, "float32", "here", ".2f"),
    "parts": Entry("parts", "Parts", [2, 4, 6], 0, "counts", "here"),
    "whole": Entry("whole", "Whole", 12, 0, "a count", "here", "d"),
}


def wrong(text: str) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in check_words(parse("x.qmd", text), LEDGER)]


@pytest.mark.parametrize(
    "text",
    [
        'It costs [ninefold]{.worded data-claim="cost"}.',
        "It costs [nearly ten times]{data-claim='cost' .worded} that.",
        '[A third]{.worded data-claim="parts" data-over="whole" data-at="1"} of it',
        'It costs [**ninefold**]{.worded data-claim="cost"}.',
        "There are [twelve]{.worded data-claim=whole}.",
    ],
)
def test_words_that_their_entry_bears_out_pass(text):
    assert wrong(text) == []


@pytest.mark.parametrize(
    "text, said",
    [
        ('[tenfold]{.worded data-claim="cost"}', '"tenfold" means 9.5 to 10.5, but cost is 8.97'),
        ('[thirteen]{.worded data-claim="whole"}', "but whole is 12"),
        ('[ninefold]{.worded data-claim="cots"}', "rests on cots, which the ledger does not have"),
        ("[ninefold]{.worded}", "names no data-claim"),
        ('[a lot]{.worded data-claim="cost"}', "`a lot` is no number in words"),
        ('[8.97]{.claim data-claim="cost"}', "a claim is made by say"),
        ("It costs ninefold.", '"ninefold" carries a number; mark it'),
        ("It differs by half a percent.", '"half a percent" carries a number'),
        ("It differs by three per cent.", '"three per cent" carries a number'),
    ],
)
def test_what_its_entry_denies_is_named_with_its_line(text, said):
    ((line, got),) = wrong(f"First.\n\nThen\n{text}\nand more.")
    assert line == 4
    assert said in got


def test_captions_may_hold_marks_and_alternative_texts_may_not():
    options = (
        "#| fig-cap: |\n#|   One line,\n#|   [tenfold]{.worded data-claim='cost'}.\n"
        '#| fig-alt: "[ninefold]{.worded data-claim=cost}"'
    )
    text = f"```{{python}}\n#| label: fig-a\n{options}\n1\n```"
    assert [line for line, _ in wrong(text)] == [5, 6]
    assert "alternative text holds no marks" in wrong(text)[1][1]


def test_code_and_unmarked_spans_are_left_alone():
    text = "`[tenfold]{.worded}` and [tenfold`x`]{.small}"
    assert list(worded_of(parse("x.qmd", text))) == []
    assert wrong("```\n[tenfold]{.worded}\n```\n\nmanifold and twofer, blindfold") == []


def test_what_else_might_be_marked_is_listed_and_no_problem():
    text = "It is twice as long,\nnearly two thirds of it, and a third time about half the size."
    source = parse("x.qmd", text)
    assert list(check_words(source, LEDGER)) == []
    assert list(unmarked(source)) == [(1, "twice as"), (2, "two thirds"), (2, "half the")]


# ---- In a build ----


def test_changed_words_execute_nothing_and_wrong_ones_turn_the_build_red(executed, books, site):
    path = executed / "chapters/one.qmd"
    marked = '[forty-two]{.worded data-claim="twice"} and [half]{.worded data-claim="half"}'
    books.edit(path, "Between them.", f"Between them, {marked}.")
    report = build(load_project(executed), jobs=1)
    assert report.ran == () and report.woven == ("chapters/one.qmd",)
    books.edit(path, "[forty-two]", "[forty-three]")
    with pytest.raises(
        BookError, match=r"^chapters/one\.qmd:13: .forty-three. means .*twice is 42"
    ):
        build(load_project(executed), jobs=1)


def test_words_that_rest_on_what_no_chapter_checks_turn_the_build_red(executed, books, site):
    text = books.ledger + "\n" + books.ledger.split("\n\n")[1].replace("[twice]", "[lonely]")
    (executed / "ledger.toml").write_text(text, encoding="utf-8")
    books.edit(
        executed / "index.qmd", "Hello.", 'Hello,\n[forty-two]{.worded data-claim="lonely"}.'
    )
    with pytest.raises(BookError) as error:
        build(load_project(executed), jobs=1)
    assert [str(problem) for problem in error.value.problems] == [
        "index.qmd:4: lonely is said in words, but no chapter checks it",
        "ledger.toml:19: [lonely] is checked by no chapter; remove it or use it",
    ]
