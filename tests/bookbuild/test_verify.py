"""`verify` executes everything from nothing, compares, and writes nothing."""

import json

import pytest

from bookbuild.build import ChaptersFailed, Listener, plan
from bookbuild.freeze import Frozen, read
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.verify import compare, summary, verify


def verified(root):
    return verify(plan(load_project(root)), jobs=2, timeout=60, listener=Listener())


def test_a_good_freeze_is_found_identical_and_nothing_is_written(executed, books, monkeypatch):
    # The freeze came from forked kernels; what it is compared with does not.
    monkeypatch.setattr("bookbuild.warm.nurseries", None)
    before = books.contents(executed)
    found = verified(executed)
    assert summary(found) == {"chapters": 2, "numbers": 2, "identical": 2, "problems": 0}
    after = books.contents(executed)
    assert after.pop(".book/drifts.json") == b"{}"
    assert after == {name: content for name, content in before.items() if "drifts" not in name}


def test_a_drift_fails(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    with pytest.raises(ChaptersFailed, match="twice drifted by 21"):
        verified(executed)


def test_a_stale_freeze_fails_though_its_numbers_hold(executed, books, monkeypatch):
    books.edit(executed / "code/measured/doubles.py", "2 *", "2  *")
    with pytest.raises(BookError) as caught:
        verified(executed)
    assert str(caught.value) == (
        "chapters/one.qmd: the committed freeze is stale: measured.doubles changed"
    )


def altered(frozen, old="", new="", environment=None, figures=()):
    """A freeze with other text, as another machine might have made it."""
    files = dict(frozen.files)
    html = files["execute-results/html.json"].decode()
    assert old in html
    files["execute-results/html.json"] = html.replace(old, new).encode()
    if environment:
        numbers = {**frozen.numbers, "environment": environment}
        files["execute-results/numbers.json"] = json.dumps(numbers).encode()
    return Frozen({**files, **{f"figure-html/{name}": b"" for name in figures}})


HERE, THERE = None, {"python": "3.13"}


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"old": "number is 42", "new": "number is 43"}, ["execute-results/html.json differs"]),
        ({"environment": THERE}, []),
        ({"old": "number is 42", "new": "number is 41.9", "environment": THERE}, []),
        ({"old": "number is 42", "new": "number is  42.", "environment": THERE}, []),
        (
            {"old": "number is 42", "new": "numeral is 42", "environment": THERE},
            ["its text differs: 'the number is #' is now 'the numeral is #'"],
        ),
        (
            {"figures": ["a-output-1.svg"], "environment": THERE},
            ["draws other figures: figure-html/a-output-1.svg"],
        ),
    ],
    ids=[
        "same",
        "number here",
        "elsewhere",
        "last digits elsewhere",
        "padding elsewhere",
        "text",
        "figures",
    ],
)
def test_what_may_differ_on_another_machine_and_what_never(executed_once, change, problems):
    then = read(executed_once / "_freeze/chapters/one")
    assert list(compare("one", then, altered(then, **change)).problems) == problems


def test_other_checked_numbers_are_a_difference(executed_once):
    then = read(executed_once / "_freeze/chapters/one")
    numbers = {**then.numbers, "numbers": [], "environment": THERE}
    files = {**then.files, "execute-results/numbers.json": json.dumps(numbers).encode()}
    found = compare("one", then, Frozen(files))
    assert found.problems == ("checks other numbers: twice",)
    assert (found.identical, found.same_environment) == (False, False)
