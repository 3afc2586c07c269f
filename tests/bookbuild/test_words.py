"""Numbers in words are understood, with the room that each wording leaves."""

import math

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from bookbuild.words import PARTS, SMALL, disagreement, interval_of

HUNDREDS = ["", "a hundred and ", "three hundred and "]


@pytest.mark.parametrize(
    "text, inside, outside",
    [
        ("ninefold", [9, 8.6, 9.4], [8.5, 9.5]),
        ("twenty-eight-fold", [28], [26, 30]),
        ("a hundredfold", [100], [90, 111]),
        ("twice", [2, 1.95, 2.08], [1.8, 2.2]),
        ("three times", [3], [2.8, 3.2]),
        ("ten times as many", [10], [9]),
        ("half", [0.5], [0.45, 0.55]),
        ("a third", [1 / 3], [0.25, 0.4]),
        ("two thirds", [2 / 3], [0.6, 0.72]),
        ("nine-tenths", [0.9], [0.8, 1]),
        ("a ten-thousandth", [1e-4], [1e-3, 1e-5]),
        ("one and a half", [1.5], [1.25, 0.5]),
        ("three and a quarter", [3.25], [3, 3.5]),
        ("half a percent", [0.005], [0.5, 0.006]),
        ("three percent", [0.03], [3, 0.035]),
        ("a tenth of a percent", [0.001], [0.1]),
        ("half a million", [500_000], [600_000, 0.5]),
        ("two dozen", [24], [20]),
        ("an order of magnitude", [10, 4, 30], [3, 32]),
        ("two orders of magnitude", [100], [31, 320]),
        ("about half", [0.43, 0.57], [0.42, 0.58]),
        ("nearly two thirds", [0.6, 0.66], [0.667, 0.5]),
        ("just over a fifth", [0.21], [0.2, 0.25]),
        ("at least three quarters", [0.75, 4], [0.74]),
        ("at most half a percent", [0.005, 0], [0.0051]),
        ("more than half", [0.51, 3], [0.5]),
        ("less than a hundredth", [0.0099], [0.01]),
        ("up to a third", [1 / 3, 0.3], [0.34, 0.1]),
        ("Half", [0.5], [0.6]),
        ("no  more\nthan twice", [2], [2.01]),
        ("7.08", [7.08, 7.0849], [7.0851, 7.07]),
        ("12 %", [0.12, 0.124], [0.126, 12]),
        ("63,082,496", [63_082_496], [63_082_497]),
        ("a third", [-1 / 3], [-0.5]),  # `falls by a third`
    ],
)
def test_words_allow_what_a_reader_would_call_so_and_no_more(text, inside, outside):
    allowed = interval_of(text)
    assert [value for value in inside if not allowed.holds(value)] == []
    assert [value for value in outside if allowed.holds(value)] == []


@pytest.mark.parametrize(
    "text", ["", "hello", "a lot", "a few", "one two", "a twenty", "two third", "nearly", "thirdly"]
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="no number in words"):
        interval_of(text)


@given(integers(1, 99), sampled_from(HUNDREDS))
def test_every_whole_number_in_words_is_itself(number, hundreds):
    names = {value: word for word, value in SMALL.items()}
    word = names.get(number) or f"{names[number // 10 * 10]}-{names[number % 10]}"
    value = 100 * [0, 1, 3][HUNDREDS.index(hundreds)] + number
    assert interval_of(hundreds + word).count == value


@given(integers(2, 19), sampled_from(sorted(set(PARTS) - {"half", "halve", "tenthousandth"})))
def test_every_fraction_is_its_quotient(count, part):
    word = {value: word for word, value in SMALL.items()}[count]
    quotient = count / PARTS[part]
    allowed = interval_of(f"{word} {part}s")
    assert math.sqrt(allowed.low * allowed.high) == pytest.approx(quotient, rel=0.002)


VALUES = {"triple": 8.97, "nine": 9, "rows": [[1.0, 2.0], [3.0, 6.1]], "text": "x", "none": 0.0}


@pytest.mark.parametrize(
    "text, claim, over, at, exact, said",
    [
        ("ninefold", "triple", "", "", False, None),
        ("nine", "nine", "", "", True, None),
        ("ten", "nine", "", "", True, "means 9.5 to 10.5, but nine is 9"),
        ("a third", "nine", "triple", "", False, "but nine / triple is 1.00334"),
        ("six", "rows", "", "1,1", False, None),
        ("six", "rows", "", "0,1", False, "but rows is 2"),
        ("at most seven", "rows", "", "", False, None),
        ("at most six", "rows", "", "", False, "but rows is 6.1"),
        ("six", "rows", "", "1,1,0", False, "data-at=1,1,0 goes deeper"),
        ("six", "rows", "", "7", False, "rows: list index out of range"),
        ("six", "text", "", "", False, "the entry holds 'x'"),
        ("six", "nine", "none", "", False, "none is no single number"),
        ("six", "nine", "rows", "", False, "rows is no single number"),
        ("six", "absent", "", "", False, "rests on absent, which the ledger does not have"),
        ("six", "", "", "", False, "names no data-claim"),
        ("very", "nine", "", "", False, "no number in words"),
    ],
)
def test_words_are_held_against_their_entries(text, claim, over, at, exact, said):
    got = disagreement(text, claim, over, at, VALUES, exact)
    assert got is None if said is None else said in got
    # A count that is exact must be that very number: eleven is not "about ten".


def test_an_exact_count_may_not_be_near():
    assert disagreement("twenty", "n", "", "", {"n": 21}, exact=True)
    assert disagreement("twenty", "n", "", "", {"n": 21}, exact=False) is None
    assert disagreement("about twenty", "n", "", "", {"n": 21}, exact=True) is None
