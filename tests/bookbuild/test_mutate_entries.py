"""Every entry of the ledger would fail if its expected value were a little different."""

import math
from pathlib import Path

import pytest

from bookbuild.mutate_command import entries
from bookbuild.mutate_entries import expectations, move_entries, moved
from bookbuild.project import load_project
from ledger.entries import Entry

ROOT = Path(__file__).resolve().parents[2]


def entry(value, tolerance=0.0):
    return Entry("id", "What it is", value, tolerance, "why", "arithmetic")


@pytest.mark.parametrize(
    ("value", "tolerance", "computed", "moves", "unnoticed"),
    [
        (0.5, 0.1, 0.5, 2, 0),
        (0.5, 0.1, 0.54, 2, 0),
        (0.5, 0.1, 0.56, 2, 1),  # more than half a tolerance off: one side is not seen
        ([1.0, 2.0], 0.1, [1.0, 2.06], 5, 1),
        (42, 0, 42, 2, 0),
        (0.1, 0, 0.1, 2, 0),  # the last bit
        (True, 0, True, 1, 0),
        ("yes", 0, "yes", 2, 0),
        ("NaN", 0, "NaN", 2, 0),  # the text
        (math.nan, 0, "NaN", 1, 0),  # the number, as JSON has it
        ([[1, 2], [3, 4]], 0, [[1, 2], [3, 4]], 9, 0),
    ],
)
def test_an_expectation_that_was_moved_is_refused(value, tolerance, computed, moves, unnoticed):
    result = moved(entry(value, tolerance), computed)
    assert (result.moves, result.unnoticed) == (moves, unnoticed)


def test_every_element_is_moved_alone():
    found = list(expectations([1.0, 2.0], 0.5))
    assert found == [[1.75, 2.0], [0.25, 2.0], [1.0, 2.75], [1.0, 1.25], [1.0]]


def test_a_check_that_is_too_lenient_would_be_seen(monkeypatch):
    monkeypatch.setattr("ledger.session.deviation", lambda expected, got: 0.0)
    assert moved(entry(42), 42).unnoticed == 2


def test_the_command_names_the_entry_that_is_off_centre(executed, books):
    assert entries(load_project(executed)) == (
        [],
        "4 of 4 moves of 2 expected values noticed; 2 entries notice each of theirs",
    )
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.5000008")
    found, _ = entries(load_project(executed))
    assert found == [
        "half: 1 of 2 moves of its expected value go unnoticed; "
        "the computed value is 0.80 tolerances off the centre"
    ]


def test_every_entry_notices_a_move_by_one_and_a_half_tolerances():
    done, missing = move_entries(load_project(ROOT))
    assert len(done) > 400
    assert ([one for one in done if one.unnoticed], missing) == ([], [])
