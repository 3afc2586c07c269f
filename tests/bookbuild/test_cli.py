"""The command: what it prints where, and how it exits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bookbuild.cli import main
from bookbuild.cli_shared import text_of
from bookbuild.problems import BookError, Problem
from bookbuild.verify import Comparison

BOOK = Path(sys.executable).with_name("book")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def book(executed):
    """Call the command on the executed small book."""

    def call(verb, *arguments, folder=executed):
        return CliRunner().invoke(main, [verb, "-C", str(folder), *arguments])

    call.root = executed
    return call


def test_stale_says_one_line_a_chapter_and_exits_0_when_all_is_fresh(book):
    result = book("stale")
    assert result.stdout == "index  no code\none    fresh\ntwo    fresh\n"
    assert (result.stderr, result.exit_code) == ("", 0)


def test_stale_exits_1_with_the_reason(book, books):
    books.edit(book.root / "code/measured/doubles.py", "2 *", "2  *")
    books.edit(book.root / "chapters/two.qmd", "The end.", "Fin.")
    result = book("stale")
    assert result.stdout == (
        "index  no code\none    stale    measured.doubles changed\n"
        "two    rewoven  its prose changed\n"
    )
    assert result.exit_code == 1


def test_stale_as_json(book):
    assert json.loads(book("stale", "--json").stdout) == {
        "index.qmd": ["plain", ""],
        "chapters/one.qmd": ["fresh", ""],
        "chapters/two.qmd": ["fresh", ""],
    }


def test_a_build_tells_what_it_did_and_where_the_book_is(book, site):
    result = book("build")
    first, second = result.stdout.splitlines()
    assert first.startswith("nothing to execute, 3 of 3 pages rendered in ")
    assert second == f"open {book.root}/_book/index.html"
    assert (result.stderr, result.exit_code) == ("", 0)
    assert book("build").stdout == f"nothing changed; {book.root}/_book/index.html\n"


def test_a_build_as_json(book, site):
    result = book("build", "--json")
    found = json.loads(result.stdout)
    assert found["rendered"] == ["index.qmd", "chapters/one.qmd", "chapters/two.qmd"]
    assert found["site"] == f"{book.root}/_book/index.html"
    assert result.stderr == ""


def test_a_drift_is_told_on_standard_error_with_exit_1(book, books):
    books.edit(book.root / "code/measured/doubles.py", "2 *", "3 *")
    result = book("execute")
    lines = result.stderr.splitlines()
    assert lines[0] == "executing 1 chapter, 1 at a time"
    assert lines[1].startswith("one    FAILED ")
    assert lines[1].endswith("measured.doubles changed")
    assert lines[2] == (
        "0 ran, 2 fresh, 1 failed; _book and _freeze are still those of the last good build"
    )
    assert lines[3] == (
        "1 of 1 recomputed numbers moved, 0 did not; .book/drift-report.txt lists both"
    )
    assert lines[4] == "chapters/one.qmd:17: twice drifted by 21; it must be exact"
    assert (result.stdout, result.exit_code) == ("", 1)


def test_a_broken_chapter_is_told_without_a_traceback(book):
    (book.root / "chapters/one.qmd").write_text("```{python}\nx\n```\n")
    result = book("stale")
    assert result.stderr.startswith("chapters/one.qmd:1: cell without a label")
    assert (result.stdout, result.exit_code) == ("", 1)


def test_a_broken_ledger_is_told_with_its_line(book, books):
    books.edit(book.root / "ledger.toml", "value = 42", "value = 42.5")
    result = book("stale")
    assert result.stderr.startswith("ledger.toml:3: [twice] format 'd' is for whole numbers")
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "tow"), "no chapter is called 'tow'; there are: index, one, two"),
        (("build", "--jobs", "0"), "0 is not in the range x>=1"),
        (("execute", "--timeout", "0"), "0.0 is not in the range x>0"),
        (("accept", "twice"), "Missing option '--reason'"),
        (("stale", "--what"), "No such option"),
    ],
)
def test_a_wrong_command_exits_2(book, arguments, message):
    result = book(*arguments)
    assert message in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)


def test_a_folder_without_a_book(book, tmp_path):
    result = book("stale", folder=tmp_path / "nowhere")
    assert result.exit_code != 0
    assert "give a book's folder with -C" in result.stderr


def test_a_full_disk_is_one_line(book, books, monkeypatch):
    def write_bytes(path, content):
        raise OSError(28, "No space left on device", "_freeze/x")

    books.edit(book.root / "chapters/two.qmd", "The end.", "Fin.")
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    result = book("execute")
    assert result.stderr == (
        "_freeze/x: No space left on device; "
        "_book and _freeze are still those of the last good build\n"
    )
    assert result.exit_code == 1


def test_a_read_only_place_is_one_line(book, monkeypatch):
    def mkdir(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    result = book("build")
    assert result.stderr.startswith(f"{book.root}/.book: Permission denied; _book and _freeze are")
    assert result.exit_code == 1


def test_accept_says_what_it_did(book):
    (book.root / ".book/drifts.json").write_text('{"twice": {"got": 43, "chapter": "x"}}')
    result = book("accept", "twice", "--reason", "a test")
    assert (result.stdout, result.exit_code) == ("twice: 42 -> 43; now run make site\n", 0)
    assert book("accept", "nothing", "--reason", "x").exit_code == 1


@pytest.mark.parametrize(("problems", "code"), [((), 0), (("its text differs",), 1)])
def test_verify_says_how_many_numbers_were_recomputed(book, monkeypatch, problems, code):
    found = [Comparison("one.qmd", 3, True, True), Comparison("two.qmd", 4, False, True, problems)]
    monkeypatch.setattr("bookbuild.verify.verify", lambda *_, **__: found)
    result = book("verify")
    assert result.stdout == (
        "7 numbers of 2 chapters recomputed, all inside their tolerances; "
        "1 of 2 chapters identical to the freeze, byte for byte\n"
    )
    assert result.stderr == "".join(f"two.qmd: {problem}\n" for problem in problems)
    assert result.exit_code == code
    assert json.loads(book("verify", "--json").stdout)["numbers"] == 7


def test_the_installed_command_has_every_verb():
    process = subprocess.run([BOOK, "--help"], capture_output=True, text=True, check=True)
    verbs = "accept build doctor execute merge plan render run serve stale verify watch"
    for verb in verbs.split():
        assert f"\n  {verb} " in process.stdout


def test_of_many_problems_the_later_ones_are_told_by_their_first_line():
    many = [Problem("x.qmd", n, f"number-{n} drifted\n  expected  {n}") for n in range(1, 8)]
    text = text_of(BookError(many))
    assert text.count("drifted") == 7
    assert text.count("expected") == 5
    assert text.endswith("x.qmd:6: number-6 drifted\nx.qmd:7: number-7 drifted")
