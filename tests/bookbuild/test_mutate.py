"""Faults: the list, what finds them in a small book, and what the committed results are worth."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bookbuild import mutate_results as results
from bookbuild.mutate import Fault, Target, load_faults, load_targets, program, reached
from bookbuild.mutate_child import detected_by_leaks
from bookbuild.mutate_command import check, choose, run
from bookbuild.mutate_entries import move_entries
from bookbuild.mutate_order import Order
from bookbuild.mutate_run import Outcome, Usual, mutate, mutation_environment, placeless, try_fault
from bookbuild.pages import FILTERS, pandoc_path
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.source import parse

ROOT = Path(__file__).resolve().parents[2]

# The small book of conftest.py: `twice` is checked in chapter one; chapter two reads a file.
FAULTS = """\
[thrice]
file = "doubles.py"
find = "2 * x"
replace = "3 * x"
says = "Twice is thrice."

[no-product]
file = "doubles.py"
find = "return 2 * x"
replace = "return 2 / (x - x)"
says = "It divides by zero."

[forever]
file = "doubles.py"
find = "return 2 * x"
replace = '''
while True:
        pass'''
says = "It never ends."

[sum]
file = "doubles.py"
find = "2 * x"
replace = "x + x"
says = "Twice is a sum."
survives = "A number added to itself is twice the number."

[half]
file = "halves.py"
find = "0.5"
replace = "0.25"
says = "Half is a quarter."

[out-of-reach]
"never.py" = "Nobody imports it."
"__init__.py" = "It is empty."
"""


def fault_book(root: Path, faults: str = FAULTS) -> Path:
    (root / "tests").mkdir()
    (root / "tests/faults.toml").write_text(faults, encoding="utf-8")
    return root


def fate(root, **changed):
    """What `book mutate` says of the book in `root`: problems, a summary, a line for each trial."""
    told = []
    options = {"jobs": 2, "sample": None, "seed": 0, "only": (), **changed}
    found, said = run(load_project(root), told=told.append, **options)
    return found, said, [text for text in told if "without a fault" not in text]


# What finds a fault.


@pytest.fixture(scope="module")
def tried(executed_once, tmp_path_factory):
    """The small book, every fault tried: its folder, and what was said."""
    from bookbuild import mutate_run

    root = shutil.copytree(executed_once, tmp_path_factory.mktemp("tried") / "book")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutate_run, "GRACE", 1.0)
        return root, *fate(fault_book(root))


def test_a_number_an_error_and_a_time_limit_find_faults(tried):
    root, _, said, lines = tried
    outcomes = results.outcomes_of(results.read(root))
    assert {id: one.how for id, one in outcomes.items()} == {
        "thrice": "number", "no-product": "error", "forever": "timeout", "sum": "", "half": "",
    }  # fmt: skip
    thrice = outcomes["thrice"]
    assert (thrice.chapter, thrice.cell, thrice.entry) == ("chapters/one.qmd", "count", "twice")
    assert thrice.message == "twice drifted by 21; it must be exact"
    assert outcomes["no-product"].message == "ZeroDivisionError: division by zero"
    assert said.startswith("3 of 5 faults found (60.0%) in ")
    assert len(lines) == 5


def test_a_survivor_without_a_reason_is_a_problem(tried):
    _, found, _, _ = tried
    (problem,) = found
    assert problem.startswith("half: no check finds it: Half is a quarter.")


def test_the_book_itself_is_never_touched(tried):
    root, *_ = tried
    assert (root / "code/measured/doubles.py").read_text() == "def twice(x):\n    return 2 * x\n"
    assert not list(root.rglob("*.pyc"))


def test_what_was_tried_is_not_tried_again(tried, tmp_path):
    root = shutil.copytree(tried[0], tmp_path / "book")
    assert fate(root)[2] == []
    # Neither without the kept results: those that the book shows are enough …
    shutil.rmtree(root / ".book")
    assert fate(root)[2] == []
    # … nor after a comment; but after a change to what runs, only what hangs on it.
    module = root / "code/measured/halves.py"
    module.write_text("HALF = 0.5  # of one\n")
    assert any("texts of the package" in text for text in check(load_project(root))[0])
    assert fate(root)[2] == []
    module.write_text("HALF = 1 / 2 if True else 0.5\n")
    stale = [text for text in check(load_project(root))[0] if "has changed since" in text]
    assert [text.partition(":")[0] for text in stale] == ["half"]
    assert [text.split()[0] for text in fate(root)[2]] == ["half"]


class Noting:
    """A worker that finds nothing anywhere, and notes what it was asked to run."""

    tree = Path()

    def __init__(self):
        self.asked = []

    @contextmanager
    def having(self, fault):
        yield

    def run(self, chapter, cells, limit, expected):
        self.asked.append((chapter, tuple(cells)))
        return {"how": "", "seconds": 0.0, "message": ""}


def test_where_a_fault_was_found_before_is_where_it_is_looked_for_first():
    fault = Fault("one", "a.py", "x", "y", "It is another.")
    modules = frozenset({"code/measured/a.py"})
    targets = [Target(parse(f"{name}.qmd", ""), modules, name, {}) for name in ("quick", "slow")]
    order = Order(("first",), ("late",))
    usual = {
        f"{name}.qmd": Usual(name, order, {"first": seconds, "late": 9 * seconds}, seconds, ())
        for name, seconds in (("quick", 1.0), ("slow", 2.0))
    }
    cheap, dear = ("first",), ("first", "late")
    by_cost = [("quick.qmd", cheap), ("slow.qmd", cheap), ("quick.qmd", dear), ("slow.qmd", dear)]

    def asked(before):
        worker = Noting()
        assert not try_fault(worker, fault, targets, usual, before).killed
        return worker.asked

    assert asked(None) == by_cost
    assert asked(Outcome("one", "")) == by_cost
    found = Outcome("one", "number", "slow.qmd", "first")
    assert asked(found) == [by_cost[1], by_cost[3], by_cost[0], by_cost[2]]
    assert asked(replace(found, cell="late"))[0] == by_cost[3]


@pytest.mark.parametrize(
    ("chapter", "found_still", "survived_still"),
    [
        ({}, True, True),
        ({"entries": {"half": "0.5", "twice": "43"}}, True, False),  # another tolerance, say
        ({"entries": {"half": "0.6", "twice": "42"}}, False, False),
        ({"program": "other"}, False, False),
    ],
)
def test_a_fault_is_tried_anew_when_what_decided_about_it_has_changed(
    chapter, found_still, survived_still
):
    fault = Fault("one", "a.py", "x", "y", "It is another.")
    modules = frozenset({"code/measured/a.py"})
    entries = {"half": "0.5", "twice": "42"}
    target = Target(parse("chapter.qmd", ""), modules, "program", entries)
    found = Outcome("one", "number", "chapter.qmd", "cell", "half")
    found = replace(found, keys={"chapter.qmd": target.key_found(fault, "half")})
    survived = Outcome("one", "", keys={"chapter.qmd": target.key_with(fault)})
    today = [replace(target, **chapter)]
    assert found.holds(fault, today) == found_still
    assert survived.holds(fault, today) == survived_still
    assert not found.holds(replace(fault, replace="z"), today)
    assert not found.holds(fault, [])


def test_a_reason_to_survive_that_no_longer_holds_is_a_problem(tried):
    project = load_project(tried[0])
    faults, targets = load_faults(tried[0]), load_targets(project)
    thrice = replace(faults.faults[0], survives="It is too subtle.")
    outcome = results.outcomes_of(results.read(tried[0]))["thrice"]
    assert list(results.unexplained(thrice, outcome, targets)) == [
        "thrice: is found by chapters/one.qmd now; remove its reason to survive"
    ]


def test_a_chapter_that_is_wrong_without_a_fault_tries_nothing(executed, books):
    books.edit(executed / "ledger.toml", "value = 42", "value = 43")
    fault_book(executed)
    with pytest.raises(BookError, match=r"chapters/one\.qmd: is wrong without any fault: count: "):
        fate(executed, only=["thrice"])


def test_a_sample_is_drawn_by_its_seed_and_writes_no_results(executed):
    faults = load_faults(fault_book(executed))
    drawn = [[f.id for f in choose(faults, 2, seed, ())] for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 2
    assert len({tuple(ids) for ids in drawn}) > 1
    found, said, lines = fate(executed, only=["thrice"])
    assert (found, len(lines)) == ([], 1)
    assert said.startswith("1 of 1 faults found; 1 tried now")
    assert results.read(executed) is None
    with pytest.raises(BookError, match="has no fault twice"):
        choose(faults, None, 0, ["twice"])


def test_a_number_that_is_no_longer_checked_was_found_too(executed, books):
    books.edit(
        executed / "chapters/one.qmd",
        'check("twice", twice(21))',
        '[check("twice", n) for n in [twice(21)] if twice(1) == 2][-1:] or 42',
    )
    books.bring_up_to_date(executed)
    fate(fault_book(executed), only=["thrice"])
    record = json.loads((executed / ".book/mutate/fault-thrice.json").read_text())
    assert (record["how"], record["message"]) == ("number", "twice is no longer checked")


# The list.


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('find = "2 * x"\nreplace = "3 * x"', 'find = "5 * x"\nreplace = "3 * x"',
         r"faults\.toml:1: \[thrice\] the text to find no longer stands in doubles\.py"),
        ('find = "0.5"', 'find = "\\n"\n', "stands in 1 places|would be no Python|nothing that"),
        ('find = "2 * x"\nreplace = "3 * x"', 'find = "x"\nreplace = "y"',
         r"\[thrice\] the text to find stands in 2 places of doubles\.py"),
        ('"x + x"', '"2*x"', r"\[sum\] changes nothing that runs"),
        ('"3 * x"', '"3 *"', r"\[thrice\] doubles\.py would be no Python any more"),
        ('"halves.py"', '"quarters.py"', r"\[half\] quarters\.py is no module of code/measured"),
        ("says = \"Half", "tells = \"Half", r"\[half\] has an unknown field tells"),
        ('"never.py" = ', '"ever.py" = ', r"\[out-of-reach\] ever\.py does not exist"),
    ],
)  # fmt: skip
def test_a_fault_that_cannot_be_tried_is_refused_with_its_line(executed, old, new, said):
    assert FAULTS.count(old) >= 1
    fault_book(executed, FAULTS.replace(old, new, 1))
    with pytest.raises(BookError, match=said):
        load_faults(executed)


def test_a_module_that_no_fault_is_about_is_told(executed):
    faults = load_faults(fault_book(executed))
    assert list(results.untried(executed, faults)) == []
    (executed / "code/measured/thirds.py").write_text("THIRD = 1 / 3\n")
    assert list(results.untried(executed, faults)) == [
        "thirds.py: no fault of tests/faults.toml is about it"
    ]


def test_comments_and_docstrings_are_no_part_of_a_program():
    text = 'def f(x):\n    """Give x."""\n    return x  # as it is\n'
    assert program(text) == program("def f(x):\n\n    return (x)\n")
    assert program(text) != program("def f(x):\n    return -x\n")


# Who found it.


def test_the_ids_that_rest_on_a_leak_detector():
    code = 'leak = future_leak(m, x, y)\ncheck("a", leak is None)\ncheck("b", x.sum())\n'
    assert detected_by_leaks(code) == {"a"}
    assert detected_by_leaks('check("c", padding_leak(f, x, y, z).by)') == {"c"}
    assert detected_by_leaks('check("d", sum(one is None for one in found))') == {"d"}


# The book of this repository.


PAGE = "chapters/how-sure.qmd"


@pytest.fixture(scope="module")
def repository():
    project = load_project(ROOT)
    return project, load_faults(ROOT), load_targets(project)


def test_the_faults_are_many_and_about_every_module(repository):
    _, faults, targets = repository
    assert len(faults.faults) >= 100
    assert list(results.untried(ROOT, faults)) == []
    assert all(reached(fault, targets) for fault in faults.faults)


def test_the_results_that_the_book_shows_are_those_of_today(repository):
    project, faults, targets = repository
    if PAGE not in {chapter.path for chapter in project.chapters}:
        return  # the book shows none
    record = results.read(ROOT)
    done, _ = move_entries(project)
    assert list(results.problems(record, ROOT, faults, targets, done)) == []
    share = sum(bool(row["how"]) for row in record["faults"]) / len(record["faults"])
    assert share >= results.SHARE


def test_a_few_faults_are_still_found(repository, tmp_path):
    _, faults, targets = repository
    targets = [target for target in targets if target.path == "chapters/masking.qmd"]
    wanted = {"causal-strict": "number", "attention-not-scaled": "number",
              "padding-leak-compares-padding": "leak"}  # fmt: skip
    chosen = [fault for fault in faults.faults if fault.id in wanted]
    outcomes = mutate(
        ROOT, chosen, targets, {}, jobs=1, environment=mutation_environment(ROOT, 2), work=tmp_path
    )
    assert {outcome.fault: outcome.how for outcome in outcomes} == wanted


# The page.


def page(root: Path, kind: str) -> str:
    """What the filter makes of a div, as text without tags."""
    done = subprocess.run(
        [str(pandoc_path()), "--to=html5", "--wrap=none", f"-L{FILTERS / 'how-sure.lua'}"],
        input=f"::: {{.sure-{kind}}}\n:::\n",
        env={**os.environ, "BOOK_ROOT": str(root)},
        capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return " ".join(re.sub(r"<[^>]+>", " ", done.stdout).split())


def test_the_page_tells_what_the_trial_gave(tried):
    root, *_ = tried
    said = page(root, "summary")
    assert said.startswith("5 faults were tried. The book's own checks found 3 of them (60.0 %): ")
    assert "1 by a number outside its tolerance" in said and "out of date" not in said
    said = page(root, "faults")
    assert "measured/doubles.py 4 1 0 2 1 measured/halves.py 1 0 0 0 1" in said
    assert said.endswith(
        "measured/__init__.py : It is empty. measured/never.py : Nobody imports it."
    )
    said = page(root, "survivors")
    assert "Twice is a sum. doubles.py: sum A number added to itself is twice" in said
    assert "Half is a quarter. halves.py: half Not explained: a check is missing." in said
    assert page(root, "entries") == (
        "2 entries were moved in 4 ways; 4 of the moves were noticed (all), and 2 entries (all) "
        "notice each of theirs."
    )


def test_the_page_says_that_its_results_are_out_of_date(tried, tmp_path):
    root = Path(shutil.copytree(tried[0], tmp_path / "book"))
    (root / "code/measured/halves.py").write_text("HALF = 0.5  # of one\n")
    said = page(root, "summary")
    assert said.startswith(
        "These results are out of date. Changed since: code/measured/halves.py 5"
    )
    # Line endings of a checkout change nothing.
    (root / "code/measured/halves.py").write_bytes(b"HALF = 0.5\r\n")
    assert "out of date" not in page(root, "summary")


def test_the_page_without_results_says_so(tmp_path):
    assert page(tmp_path, "summary") == "No fault has been tried yet."
    assert page(tmp_path, "spread") == "The spread has not been measured yet."


def test_a_message_names_no_folder_of_the_trial(tmp_path):
    place = Path(tempfile.gettempdir()) / "tmpelkkl_yk"
    message = f"OSError: {place}/genre/a.npy: not found; see {tmp_path}/tree/code/b.py: 3"
    told = placeless(message, tmp_path / "tree")
    assert told == "OSError: …/genre/a.npy: not found; see …/code/b.py: 3"
