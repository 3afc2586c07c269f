"""The markup of an exercise, and the exercises that would leave a reader without an answer."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pypandoc
import pytest

from measured.exercises import exercise

HINTS = ("first", "second")


def number(**changes):
    given = {"hints": HINTS, "slips": {"You doubled.": 6.0}, "within": 0.01, **changes}
    return exercise("three", "number", given.pop("answer", 3.0), **given)


def attributes(markdown):
    """What pandoc reads: id, classes and attributes of the one div, and its text."""
    pandoc = pypandoc.get_pandoc_path()
    done = subprocess.run(
        [pandoc, "--from=markdown", "--to=json"], input=markdown.encode(), capture_output=True
    )
    (block,) = json.loads(done.stdout)["blocks"]
    assert block["t"] == "Div"
    name, classes, pairs = block["c"][0]
    return name, classes, dict(pairs)


def test_pandoc_reads_what_the_script_needs():
    slips = {"You exchanged them: √2, “so”, [MASK], 2*3*4.": [0.75, 0.25], "Sum.": [1, 3]}
    hints = ("exponentials — e^x", "what's the sum?")
    markdown = exercise("two", "vector", [0.25, 0.75], hints=hints, slips=slips, within=0.005)
    name, classes, data = attributes(markdown)
    assert (name, classes) == ("answer-two", ["exercise-check"])
    assert data == {
        "data-ledger": "ex-two",
        "data-kind": "vector",
        "data-answer": "0.25 0.75",
        "data-within": "0.005",
        "data-hint-1": "exponentials — e^x",
        "data-hint-2": "what's the sum?",
        "data-slip-1": "You exchanged them: √2, “so”, [MASK], 2*3*4.",
        "data-slip-1-value": "0.75 0.25",
        "data-slip-2": "Sum.",
        "data-slip-2-value": "1 3",
    }


@pytest.mark.parametrize(
    ("kind", "answer", "written"),
    [
        ("count", np.int64(63_082_496), "63082496"),
        ("count", 16.0, "16"),
        ("yes-no", np.True_, "1"),
        ("yes-no", False, "0"),
        ("shape", (8, 4, 50, 50), "8 4 50 50"),
    ],
)
def test_whole_answers_are_written_without_a_point(kind, answer, written):
    data = attributes(exercise("x", kind, answer, hints=HINTS))[2]
    assert data["data-answer"] == written


def test_a_choice_lists_its_options_for_readers_without_scripts():
    markdown = exercise("x", "choice", 2, hints=["a"], choices=["one way", "the other"])
    assert "One of two:\n\n1. one way\n2. the other\n" in markdown


# ---- What is refused, so that the build fails ----


@pytest.mark.parametrize("hints", [(), ("only one",), "a text of many letters"])
def test_an_answer_without_two_hints_is_refused(hints):
    with pytest.raises(ValueError, match="three: number needs 2 hints"):
        number(hints=hints)


def test_a_slip_that_gives_the_right_answer_is_refused():
    with pytest.raises(ValueError, match=r"'the right answer' and 'Same\.' both give 3"):
        number(slips={"Same.": 3.0})


def test_a_slip_within_reach_of_the_right_answer_is_refused():
    number(slips={"Just outside.": 3.021})
    with pytest.raises(ValueError, match=r"'the right answer' and 'Near\.'"):
        number(slips={"Near.": 3.019})


def test_two_slips_of_one_value_are_refused():
    with pytest.raises(ValueError, match=r"'Halved\.' and 'Shared\.' both give 1\.5"):
        number(slips={"Halved.": 1.5, "Other.": 7.0, "Shared.": 1.505})


def test_two_slips_of_one_shape_are_refused_and_of_two_ranks_not():
    given = {"hints": HINTS, "slips": {"Flat.": (2, 15), "Longer.": (2, 3, 5, 1)}}
    exercise("x", "shape", (2, 3, 5), **given)
    with pytest.raises(ValueError, match=r"'Flat\.' and 'Again\.'"):
        given["slips"]["Again."] = [2, 15]
        exercise("x", "shape", (2, 3, 5), **given)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"within": 0.0}, "within is for number and vector"),
        ({"within": -1.0}, "within must be finite and not negative"),
        ({"answer": float("nan")}, "an answer must be finite"),
        ({"answer": [3.0, 4.0]}, r"number got an answer of shape \(2,\)"),
        ({"choices": ("a", "b")}, "choices belong to a choice"),
        ({"slips": {'Quoted "x".': 1.0}}, "would end an attribute"),
        ({"slips": {" ": 1.0}}, "is empty"),
    ],
)
def test_what_the_page_could_not_use_is_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        number(**changes)


@pytest.mark.parametrize(
    ("kind", "answer", "options", "text"),
    [
        ("guess", 1, {}, "kind must be one of number, count"),
        ("count", 1.5, {}, "count takes whole numbers"),
        ("shape", [2.5], {}, "shape takes whole numbers"),
        ("choice", 3, {"choices": ("a", "b")}, "there are 2 choices, the answer is 3"),
        ("vector", [1, 2], {"within": 0.1, "slips": {"S.": [1, 2, 3]}}, "must give 2 numbers"),
    ],
)
def test_what_a_kind_cannot_be_is_refused(kind, answer, options, text):
    with pytest.raises(ValueError, match=text):
        exercise("x", kind, answer, hints=HINTS, **options)


@pytest.mark.parametrize(("kind", "answer"), [("yes-no", 1), ("count", True)])
def test_truths_and_numbers_are_not_exchanged(kind, answer):
    with pytest.raises(TypeError, match=f"x: {kind} got"):
        exercise("x", kind, answer, hints=HINTS)


def test_names_are_kebab():
    with pytest.raises(ValueError, match="lower-case words joined by hyphens"):
        exercise("Two_scores", "count", 1, hints=HINTS)


def test_the_module_needs_neither_keras_nor_the_ledger():
    source = (Path(__file__).parents[2] / "code/measured/exercises.py").read_text("utf-8")
    assert "keras" not in source and "import ledger" not in source
