"""How far numbers stray over environments: the arithmetic, and a small book whose cells look."""

import json
import math
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookbuild import matrix
from bookbuild.build import plan
from bookbuild.matrix import (
    FAILED,
    SPREAD,
    committed,
    compute,
    differing,
    flag,
    other_pythons,
    spread,
    summary,
    table,
)
from bookbuild.pages import FILTERS, pandoc_path
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.recompute import Environment
from bookbuild.records import put_record
from ledger.entries import LEDGER, load_ledger

ROOT = Path(__file__).parents[2]
NUMBERS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.0, 1.0], 0),
        ([1.0, 1.5, 0.75], 0.75),
        ([[1, 2], [1, 5], [0, 2]], 3),  # the second element strays most
        ([[[1.0]], [[1.25]]], 0.25),
        ([[1, 2], [1, 2, 3]], math.inf),
        (["row", "row"], 0),
        (["row", "column"], math.inf),
        ([True, True], 0),
        ([True, False], math.inf),
        ([1, True], math.inf),
        ([math.nan, math.nan], 0),
        ([math.nan, 1.0], math.inf),
        ([0.5, FAILED], math.inf),
        ([[], []], 0),
    ],
)
def test_the_spread_is_the_largest_distance(values, expected):
    assert spread(values) == expected


@given(st.lists(NUMBERS, min_size=1, max_size=6), NUMBERS)
def test_more_environments_never_make_a_spread_smaller(values, another):
    assert spread([*values, another]) >= spread(values)
    assert spread(values) == spread(values[::-1])


@pytest.mark.parametrize(
    ("found", "tolerance", "expected"),
    [
        (0, 0, ""),
        (1e-12, 0, "differs"),
        ("not measurable", 0.1, "differs"),
        (0, 0.1, ""),
        (0.1, 0.15, "narrow"),
        (0.1, 0.2, ""),
        (0.1, 2.0, ""),
        (0.1, 2.5, "wide"),
    ],
)
def test_a_tolerance_is_flagged_by_its_spread(found, tolerance, expected):
    assert flag({"spread": found, "tolerance": tolerance}) == expected


def test_the_table_names_the_environment_that_strays_and_what_is_missing(books, tmp_path):
    ledger = load_ledger(books.write(tmp_path) / "ledger.toml")
    found = table(ledger, {"usual": {"half": 0.5}, "one": {"half": 0.5}, "two": {"half": 0.25}})
    assert found["entries"] == {"half": {"spread": 0.25, "tolerance": 1e-6, "where": "two"}}
    assert found["missing"] == ["twice"]
    assert summary(found).startswith(
        "1 numbers in 3 environments: 0 differ though they must not, 1"
    )


LOOKING = """\
---
title: "Looks around"
---

```{python}
#| label: look
import os
from ledger import check
from measured.doubles import twice
check("twice", twice(21))
check("half", 0.5 + (os.environ.get("STRAY") == "a little") * 0.125)
if os.environ.get("STRAY") == "badly":
    raise ValueError("cannot work here")
```
"""


def test_a_book_is_computed_in_each_environment_and_kept(books, tmp_path):
    """A drift stops nothing; a chapter that raises tells which numbers it lost."""
    root = books.write(tmp_path, {"index.qmd": "# Hello\n", "chapters/one.qmd": LOOKING})
    books.bring_up_to_date(root)
    book = plan(load_project(root))
    environments = [
        Environment("as usual"),
        Environment("a little", {"STRAY": "a little"}),
        Environment("badly", {"STRAY": "badly"}),
    ]
    ran = []

    def computed():
        return {
            environment.name: compute(book, environment, jobs=1, timeout=60, told=ran.append)
            for environment in environments
        }

    runs = computed()
    assert ran == ["chapters/one.qmd"] * 3
    assert runs["as usual"] == committed(book) == {"twice": 42, "half": 0.5}
    assert runs["a little"] == {"twice": 42, "half": 0.625}
    assert runs["badly"] == {"twice": 42, "half": 0.5}, "it raised after both checks"
    found = table(book.ledger, runs)
    assert found["entries"]["half"]["spread"] == 0.125
    assert found["entries"]["half"]["where"] == "a little"
    assert differing(found) == []
    ran.clear()
    assert computed() == runs
    assert ran == ["chapters/one.qmd"], "only where it raised is it computed again"
    books.edit(root / "code/measured/doubles.py", "2 *", "2  *")
    ran.clear()
    computed()
    assert len(ran) == 3
    (root / "requirements.lock").write_text("numpy==0\n")
    ran.clear()
    computed()
    assert len(ran) == 3, "other libraries may give other numbers"


def test_a_chapter_that_raises_early_has_failed_numbers(books, tmp_path):
    early = LOOKING.replace("from ledger", 'assert os.environ.get("STRAY") != "early"\nfrom ledger')
    root = books.write(tmp_path, {"index.qmd": "# Hello\n", "chapters/one.qmd": early})
    books.bring_up_to_date(root)
    book = plan(load_project(root))
    values = compute(book, Environment("early", {"STRAY": "early"}), jobs=1, timeout=60)
    assert values == {"twice": FAILED, "half": FAILED}
    usual = {"twice": 42, "half": 0.5}
    found = table(book.ledger, {"as committed": usual, "early": values})
    assert [line.partition(":")[0] for line in differing(found)] == ["twice", "half"]


def test_the_written_table_is_read_again(tmp_path):
    found = {"environments": ["a"], "entries": {}, "missing": []}
    put_record(tmp_path / matrix.SPREAD, found)
    assert json.loads((tmp_path / matrix.SPREAD).read_text()) == found
    assert [path.name for path in (tmp_path / "media/data").iterdir()] == ["spread.json"]


def test_a_stale_freeze_is_nothing_to_compare_with(executed, books):
    assert committed(plan(load_project(executed))) == {"twice": 42, "half": 0.5}
    books.edit(executed / "code/measured/doubles.py", "2 *", "2  *")
    with pytest.raises(BookError, match=r"one.qmd: is stale: measured.doubles changed; run make"):
        committed(plan(load_project(executed)))


def test_a_name_without_a_python_behind_it_is_passed_over(tmp_path, monkeypatch):
    for name, text in (("python3.12", "exit 127"), ("python3.13", "echo 3.12")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "requirements.lock").write_text("")
    assert other_pythons(tmp_path, ("3.12", "3.13", "3.14")) == []


# The page, and what is committed.


def page(root: Path) -> str:
    """What the filter makes of the div, as text without tags."""
    done = subprocess.run(
        [str(pandoc_path()), "--to=html5", "--wrap=none", f"-L{FILTERS / 'how-sure.lua'}"],
        input="::: {.sure-spread}\n:::\n",
        env={**os.environ, "BOOK_ROOT": str(root)},
        capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return " ".join(re.sub(r"<[^>]+>", " ", done.stdout).split())


def test_the_page_tells_what_moved_and_which_tolerances_are_odd(tmp_path):
    assert page(tmp_path) == "The spread has not been measured yet."
    entries = {
        "same": {"spread": 0.0, "tolerance": 1e-6, "where": ""},
        "narrow": {"spread": 0.5, "tolerance": 0.75, "where": "two"},
        "fitting": {"spread": 0.5, "tolerance": 1.0, "where": "two"},
        "wide": {"spread": 0.001, "tolerance": 0.5, "where": "one"},
        "name": {"spread": "not measurable", "tolerance": 0, "where": "two"},
    }
    put_record(
        tmp_path / SPREAD, {"environments": ["one", "two"], "entries": entries, "missing": []}
    )
    assert page(tmp_path) == (
        "Environments: one, two. In all of them 1 number had the same value to the last bit, and "
        "4 numbers moved. Of those that moved 1 has a tolerance under 2 spreads, and 1 has one "
        "over 20. Entry Farthest off Spread Tolerance Ratio fitting two 5.0e-01 1.0e+00 2.0 "
        "name two not measurable exact — narrow two 5.0e-01 7.5e-01 1.5 wide one 1.0e-03 5.0e-01 "
        "500"
    )


def test_every_tolerance_of_the_book_has_room_for_what_was_seen():
    found = json.loads((ROOT / SPREAD).read_text(encoding="utf-8"))
    ledger = load_ledger(ROOT / LEDGER)
    again = "; run make verify-matrix"
    assert found["missing"] == [] and set(found["entries"]) == set(ledger), again
    told = {id: row["tolerance"] for id, row in found["entries"].items()}
    assert told == {id: entry.tolerance for id, entry in ledger.items()}, again
    odd = {id: flag(row) for id, row in found["entries"].items()}
    assert {id: sign for id, sign in odd.items() if sign in ("differs", "narrow")} == {}
