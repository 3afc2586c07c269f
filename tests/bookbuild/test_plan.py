"""A book divided among machines: each chapter once, shares of about the same size."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from bookbuild.cli import main
from bookbuild.plan import MOST, divide, matrix
from bookbuild.source import parse
from bookbuild.stale import Verdict


def verdict(name, cells, state="fresh"):
    text = "".join(f"```{{python}}\n#| label: c{number}\n1\n```\n\n" for number in range(cells))
    return Verdict(parse(f"chapters/{name}.qmd", text), state)


BOOK = [
    verdict("one", 3),
    verdict("text", 0, "plain"),
    verdict("two", 7, "stale"),
    verdict("six", 2),
]


def names(parts):
    return [part.names for part in parts]


def test_each_chapter_with_code_has_a_machine_of_its_own_in_the_order_of_the_book():
    assert names(divide(BOOK)) == [("one",), ("two",), ("six",)]


def test_only_what_is_stale_can_be_planned():
    assert names(divide(BOOK, only_stale=True)) == [("two",)]
    assert divide(BOOK[:2], only_stale=True) == []


def test_fewer_machines_share_the_cells():
    assert names(divide(BOOK, machines=2)) == [("one", "six"), ("two",)]
    assert names(divide(BOOK, machines=1)) == [("one", "two", "six")]


@given(
    lists(tuples(integers(0, 5), sampled_from(["fresh", "stale", "prose"])), max_size=23),
    integers(1, 11),
)
def test_every_chapter_is_planned_once_and_no_share_is_twice_the_average(book, machines):
    verdicts = [verdict(f"c{n}", cells, state) for n, (cells, state) in enumerate(book)]
    parts = divide(verdicts, machines)
    assert sorted(name for part in parts for name in part.names) == sorted(
        f"c{n}" for n in range(len(book))
    )
    assert len(parts) == min(machines, len(book))
    loads = [sum(max(1, len(v.source.cells)) for v in part.chapters) for part in parts]
    # Largest first to the least loaded: never more than the average and one chapter more.
    assert not loads or max(loads) <= sum(loads) / len(loads) + 5


def test_the_matrix_names_what_a_job_calls():
    assert matrix(divide(BOOK, machines=2)) == {
        "include": [
            {"id": "one", "name": "one and 1 more", "chapters": "--only one --only six"},
            {"id": "two", "name": "two", "chapters": "--only two"},
        ]
    }


def test_a_book_of_a_thousand_chapters_fits_into_one_matrix():
    parts = divide([verdict(f"c{number}", 1) for number in range(1000)])
    assert len(parts) == MOST
    assert {len(part.chapters) for part in parts} == {3, 4}
    assert len({row["id"] for row in matrix(parts)["include"]}) == MOST


def call(folder, *arguments):
    return CliRunner().invoke(main, ["plan", "-C", str(folder), *arguments])


def test_the_command_prints_one_line_for_each_machine(executed):
    result = call(executed)
    assert result.stdout == (
        "book run --only one --to FOLDER\nbook run --only two --to FOLDER\nbook merge FOLDER…\n"
    )
    assert (result.stderr, result.exit_code) == ("", 0)
    assert call(executed, "--stale").stdout == "nothing to run: the freeze holds\n"


def test_the_command_as_json_is_the_matrix_and_nothing_else(executed):
    found = json.loads(call(executed, "--json").stdout)
    assert [row["chapters"] for row in found.pop("include")] == ["--only one", "--only two"]
    assert found == {}


@pytest.mark.parametrize("machines", ["0", "257"])
def test_more_machines_than_a_workflow_may_have_are_refused(executed, machines):
    result = call(executed, "--machines", machines)
    assert "is not in the range 1<=x<=256" in result.stderr
    assert result.exit_code == 2
