"""A release that changes a number is noticed, with the library that did it, and nothing else is."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from stub_libraries import CHAPTERS, LEDGER, NEW_KERAS, NEW_NUMPY, OLD, environment

from bookbuild.build import Listener, plan
from bookbuild.cli import main
from bookbuild.project import load_project
from bookbuild.verify import summary, verify
from bookbuild.watch import LOCKED, cause, numbers, versions, with_one_library
from bookbuild.watch_report import LONGEST, NOTHING, report


@pytest.fixture(scope="module")
def locked(tmp_path_factory) -> str:
    return environment(tmp_path_factory.mktemp("locked"), *OLD)


@pytest.fixture(scope="module")
def book(tmp_path_factory, locked, books) -> Path:
    """The stub book, executed and frozen with the locked libraries."""
    from bookbuild.execute import execute

    root = books.write(tmp_path_factory.mktemp("watched") / "book", CHAPTERS, LEDGER)
    (root / "requirements.lock").write_text("stubkeras==3.15.1\nstubnumpy==2.4.0\n")
    patch = pytest.MonkeyPatch()
    patch.setattr(
        "bookbuild.execute.execute", lambda *a, **o: execute(*a, **{**o, "python": locked})
    )
    report = books.bring_up_to_date(root)
    patch.undo()
    assert len(report.ran) == 3
    return root


def watched(book, locked, python, name="newest"):
    return numbers(
        plan(load_project(book)), name, python, jobs=2, timeout=60, locked=locked
    )  # fmt: skip


@pytest.fixture(scope="module")
def released(tmp_path_factory, book, locked):
    """What the watch says of a release of both libraries, of which one changed an initialiser."""
    return watched(book, locked, environment(tmp_path_factory.mktemp("new"), NEW_KERAS, NEW_NUMPY))


def test_a_changed_initialiser_is_reported_with_the_library_that_did_it(released):
    assert released["changed"] == {
        "stubkeras": ["3.15.1", "3.16.0"],
        "stubnumpy": ["2.4.0", "2.5.0"],
    }
    (moved,) = released["moved"]
    assert {key: moved[key] for key in ("id", "chapter", "line", "expected", "got", "cause")} == {
        "id": "weight-norm",
        "chapter": "chapters/layer.qmd",
        "line": 13,
        "expected": "1.5000",
        "got": "2.2500",
        "cause": "stubkeras 3.15.1 → 3.16.0, alone",
    }
    assert (released["raised"], released["computed"], released["chapters"]) == ([], 3, 3)


def test_nothing_else_notices_the_release(released, book, locked, monkeypatch):
    """With the locked libraries the book is verified as before, and nothing in it is stale."""
    from bookbuild.execute import execute

    assert released["moved"]
    monkeypatch.setattr(
        "bookbuild.execute.execute", lambda *a, **o: execute(*a, **{**o, "python": locked})
    )
    (book / ".book").mkdir(exist_ok=True)
    now = plan(load_project(book))
    assert now.stale == ()
    found = verify(now, jobs=2, timeout=60, listener=Listener())
    assert summary(found) == {"chapters": 3, "numbers": 3, "identical": 3, "problems": 0}


def test_a_library_that_cannot_be_used_any_more_is_named(tmp_path, book, locked):
    said = watched(book, locked, environment(tmp_path, OLD[0], ("3.0", "gone(values)")))
    assert said["moved"] == []
    assert [(row["chapter"], row["line"], row["cause"]) for row in said["raised"]] == [
        ("chapters/layer.qmd", 13, "stubnumpy 2.4.0 → 3.0, alone"),
        ("chapters/mean.qmd", 13, "stubnumpy 2.4.0 → 3.0, alone"),
    ]
    assert "NameError: name 'gone' is not defined" in said["raised"][0]["text"]


def test_what_moves_with_the_locked_libraries_too_is_no_release_s_doing(
    tmp_path, book, locked, books
):
    new = environment(tmp_path, OLD[0], NEW_NUMPY)
    books.edit(book / "ledger.toml", "value = 3.0", "value = 3.5")
    said = watched(book, locked, new)
    books.edit(book / "ledger.toml", "value = 3.5", "value = 3.0")
    assert list(said["changed"]) == ["stubnumpy"]
    assert [(row["id"], row["cause"]) for row in said["moved"]] == [
        ("mean", "not these releases: it happens with the locked libraries on this machine too")
    ]


CHANGED = {"keras": ("3.15", "3.16"), "numpy": ("2.4", "2.5")}
BOTH = "keras 3.15 → 3.16, numpy 2.4 → 2.5"


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ({LOCKED: False, "keras": True, "numpy": False}, "keras 3.15 → 3.16, alone"),
        (
            {LOCKED: False, "keras": True, "numpy": True},
            "keras 3.15 → 3.16 and numpy 2.4 → 2.5, each alone",
        ),
        (
            {LOCKED: False, "keras": False, "numpy": False},
            f"no library alone, only together: {BOTH}",
        ),
        (
            {LOCKED: False, "keras": None, "numpy": False},
            "perhaps keras 3.15 → 3.16, which cannot be tried alone",
        ),
        ({LOCKED: True, "keras": True}, "not these releases: it happens with the locked libraries"),
        ({LOCKED: False}, "nothing that the chapter is known to import"),
    ],
)
def test_the_cause_follows_from_the_trials(trials, words):
    assert cause(CHANGED, trials).startswith(words)


def test_one_library_of_another_environment_goes_before_the_locked_ones(tmp_path, locked):
    new = environment(tmp_path / "new", NEW_KERAS, NEW_NUMPY)
    mixed = versions(with_one_library(tmp_path / "mixed", "stubkeras", new, locked))
    assert (mixed["stubkeras"], mixed["stubnumpy"]) == ("3.16.0", "2.4.0")
    assert mixed.items() >= {"ipykernel": versions(sys.executable)["ipykernel"]}.items()


def test_a_program_that_is_no_python_is_named(book):
    result = CliRunner().invoke(
        main,
        ["watch", "numbers", "-C", str(book), "--name", "x", "--python", "/bin/false", "--to", "x"],
    )
    assert "/bin/false: is no usable Python: no message" in result.stderr
    assert result.exit_code == 1


def test_the_report_is_a_table_with_the_cause(released):
    text = report([released])
    first, *_ = text.splitlines()
    assert first == "1 number moves."
    assert (
        "| `weight-norm`: Norm of three weights as the library initialises them | `1.5000` "
        "| `2.2500` | `chapters/layer.qmd:13` | stubkeras 3.15.1 → 3.16.0, alone |"
    ) in text.splitlines()
    assert "3 numbers of 3 chapters recomputed" in text and "2 as expected" in text
    assert "Not as locked: stubkeras 3.15.1 → 3.16.0, stubnumpy 2.4.0 → 2.5.0." in text
    assert report([released]) == text


def test_a_report_mentions_nobody_and_breaks_no_table(released):
    (row,) = released["moved"]
    evil = {**row, "statement": "a | b @someone <img>", "got": "`x` | @someone"}
    text = report([{**released, "moved": [evil]}])
    (line,) = [line for line in text.splitlines() if "a ∣ b" in line]
    assert line.count("|") == 6
    assert "@someone <" not in line and "`'x' ∣ @someone`" in line and "<img" not in line


def test_a_report_fits_into_an_issue(released):
    (row,) = released["moved"]
    text = report([{**released, "moved": [row] * 1000}])
    assert LONGEST - 1000 < len(text) < 65_536
    assert text.endswith("(The rest is in the artifacts of the run.)\n")


def test_the_command_puts_numbers_and_links_together(released, tmp_path):
    (tmp_path / "n.json").write_text(json.dumps(released))
    gone = {"url": "https://x.example/", "why": "HTTP 404", "places": ["a.html"], "state": "gone"}
    links = {"links": 7, "gone": [gone], "unknown": []}
    (tmp_path / "l.json").write_text(json.dumps(links))
    call = ["watch", "report", "--to", str(tmp_path / "r.md")]
    both = [*call, "--links", str(tmp_path / "l.json"), str(tmp_path / "n.json")]
    assert CliRunner().invoke(main, both).exit_code == 1
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("1 number moves, 1 link leads nowhere.\n")
    assert "- https://x.example/ (HTTP 404), in `a.html`" in text
    well = {**released, "moved": []}
    (tmp_path / "n.json").write_text(json.dumps(well))
    assert CliRunner().invoke(main, [*call, str(tmp_path / "n.json")]).exit_code == 0
    assert (tmp_path / "r.md").read_text().startswith(f"{NOTHING}\n")
