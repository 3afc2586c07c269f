"""Numbers typed into prose are found, with their line; what may be typed is left alone."""

import pytest

from bookbuild.prose import typed_numbers
from bookbuild.source import parse
from ledger.entries import Entry

LEDGER = {
    "pe-norm": Entry("pe-norm", "Norm", 7.0711, 1e-4, "float32", "here", ".4f"),
    "base-parameters": Entry("base-parameters", "Count", 63_082_496, 0, "a count", "here", ",d"),
}


def found(prose: str, constants=()) -> list[str]:
    source = parse("chapters/x.qmd", f"---\ntitle: About 0.5\n---\n\n{prose}\n")
    return [str(one) for one in typed_numbers(source, LEDGER, dict.fromkeys(constants, "why"))]


def test_a_typed_decimal_is_named_with_its_line_and_the_nearest_entry():
    assert found("One.\n\nEach row is 7.08 long.") == [
        "chapters/x.qmd:7: 7.08 is typed; compute it in a cell, check it, and say it; "
        "nearest: pe-norm"
    ]


@pytest.mark.parametrize(
    "text, number",
    [
        ("63,082,496 parameters", "63,082,496"),
        ("$\\sqrt{50} = 7.0711$", "7.0711"),
        ("about 4 % of it", "4 %"),
        ("about 99.5% of it", "99.5%"),
        ("half of 12 percent", "12 percent"),
        ("an error of 1e-6", "1e-6"),
        ("an error of 3.6×10⁻⁷", "3.6"),
        ("an error of 10⁻⁹", "10⁻⁹"),
        ("$10^{-9}$", "10^{-9"),
        ("a deviation of −0.5.", "0.5"),
        ("it is 1.5, not two", "1.5"),
        ("| a | 0.25 |", "0.25"),
        ("::: {.callout-note title='x'}\nIt is 0.25.\n:::", "0.25"),
    ],
)
def test_every_form_of_a_measured_number_is_found(text, number):
    assert any(f": {number} is typed" in one for one in found(text)), found(text)


@pytest.mark.parametrize(
    "text",
    [
        "three, 12 and 512 columns, 10000 in the formula $10000^{2i/d}$",
        "Keras 3.15 and TensorFlow 2.21.0, under Python 3.11, 3.12 or 3.13",
        "[@vaswani2017, section 3.2.3], equation 2.1 and table 4.2",
        "sections 3.2.1 and 3.2.3",
        "`0.5` in code and `{python} say('pe-norm')`",
        "a [link](https://example.org/v1.2/page) and <https://example.org/1.5>",
        "[text]{.claim title='0.5'}",
        "licence CC BY 4.0",
        "arXiv:1706.03762",
        "```\n0.5\n```",
    ],
)
def test_what_is_no_measurement_may_be_typed(text):
    source = parse("x.qmd", f"```{{python}}\n#| label: a\n0.5\n```\n\n{text}\n")
    assert [str(one) for one in typed_numbers(source, LEDGER, {})] == []


def test_captions_and_alternative_texts_are_read():
    options = '#| label: fig-a\n#| fig-cap: "Half is 0.5."\n#| fig-alt: ["0.25 of it"]'
    cell = f"```{{python}}\n{options}\n1\n```"
    source = parse("x.qmd", cell)
    assert [p.text[:4] for p in typed_numbers(source, LEDGER, {})] == ["0.5 ", "0.25"]


def test_a_constant_with_a_reason_may_be_typed_and_only_as_it_is_listed():
    assert found("The rate is 0.1.", ["0.1"]) == []
    assert len(found("The rate is 0.10.", ["0.1"])) == 1
