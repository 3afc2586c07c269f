"""Chapters run in several working copies, put together in one: the same as one machine's build."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bookbuild.build import ChaptersFailed, Listener, plan
from bookbuild.cli import main
from bookbuild.freeze import read, sealed
from bookbuild.merge import compare, merge
from bookbuild.placing import write_freeze
from bookbuild.plan_run import outcome_path, run
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.verify import summary


def run_in(root: Path, to: Path, *names: str):
    return run(
        plan(load_project(root)), names, to, jobs=2, timeout=60, listener=Listener()
    )  # fmt: skip


def now(root: Path):
    (root / ".book").mkdir(exist_ok=True)
    return plan(load_project(root))


@pytest.fixture(scope="module")
def results_once(executed_once, tmp_path_factory) -> Path:
    """Folders `a` and `b`, each with one chapter's result, made in a working copy of its own."""
    folder = tmp_path_factory.mktemp("machines")
    for name, chapter in (("a", "one"), ("b", "two")):
        copy = Path(shutil.copytree(executed_once, folder / f"copy-{name}"))
        shutil.rmtree(copy / "_freeze")
        assert len(run_in(copy, folder / "results" / name, chapter)) == 1
        assert not (copy / "_freeze").exists()
    return folder / "results"


@pytest.fixture
def results(results_once, tmp_path) -> Path:
    return Path(shutil.copytree(results_once, tmp_path / "results"))


@pytest.fixture
def empty(executed) -> Path:
    """The small book's working copy without any freeze."""
    shutil.rmtree(executed / "_freeze")
    return executed


def test_two_machines_give_the_bytes_of_one(empty, results, executed_once, books):
    made = merge(now(empty), [results / "a", results / "b"])
    assert sorted(made) == ["chapters/one.qmd", "chapters/two.qmd"]
    assert books.contents(empty / "_freeze") == books.contents(executed_once / "_freeze")
    assert now(empty).stale == ()


def test_artifacts_in_one_folder_or_below_it_are_the_same(empty, results, tmp_path, books):
    merge(now(empty), [results])
    nested = books.contents(empty / "_freeze")
    flat = tmp_path / "flat"
    for name in ("a", "b"):
        shutil.copytree(results / name, flat, dirs_exist_ok=True)
    merge(now(empty), [flat])
    assert books.contents(empty / "_freeze") == nested


def test_the_results_are_compared_with_the_committed_freeze_and_nothing_is_written(
    executed, results
):
    before = sources(executed)
    found = compare(now(executed), [results])
    assert summary(found) == {"chapters": 2, "numbers": 2, "identical": 2, "problems": 0}
    assert sources(executed) == before


def test_a_stale_freeze_fails_the_comparison(executed, results, books):
    shutil.rmtree(executed / "_freeze/chapters/two")
    with pytest.raises(BookError) as caught:
        compare(now(executed), [results])
    assert str(caught.value) == (
        "chapters/two.qmd: the committed freeze is stale: was never executed"
    )


def refused(root, *folders):
    """What the merge says; it changes no file outside of the work folder."""
    before = sources(root)
    with pytest.raises(BookError) as caught:
        merge(now(root), folders)
    assert sources(root) == before
    return [str(problem) for problem in caught.value.problems]


def sources(root):
    paths = [path for path in root.rglob("*") if ".book" not in path.parts and path.is_file()]
    return {path: path.read_bytes() for path in paths}


def test_a_chapter_that_no_machine_ran_is_named_with_the_command(empty, results):
    assert refused(empty, results / "a") == [
        "chapters/two.qmd: no machine has run it: book run --only two --to FOLDER"
    ]


def test_a_folder_without_results_is_named(empty, results, tmp_path):
    (tmp_path / "nothing").mkdir()
    assert refused(empty, results, tmp_path / "nothing") == [
        f"{tmp_path / 'nothing'}: has no folder outcomes: it is none that book run --to wrote"
    ]


def test_results_of_another_commit_are_refused_with_what_differs(empty, results, books):
    books.edit(empty / "code/measured/doubles.py", "2 *", "2  *")
    books.edit(empty / "chapters/two.qmd", "The end.", "Fin.")
    one, two = refused(empty, results)
    place = results / "a/outcomes/chapters/one.json"
    assert one == (
        f"{place}: cannot be used: measured.doubles changed; run chapters/one.qmd again from "
        "this commit"
    )
    assert "two.json: cannot be used: it was made from another text; run chapters/two" in two


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("_freeze/chapters/one/execute-results/html.json", ("42", "43"), "its html.json is not"),
        ("_freeze/chapters/one/execute-results/numbers.json", ("42", "43"), "its numbers.json was"),
        ("outcomes/chapters/one.json", ('"seal": "', '"seal": "0'), "that of another run"),
        ("outcomes/chapters/one.json", ("{", ""), "is not readable; run its chapter again"),
        ("outcomes/chapters/one.json", ("one.qmd", "../../x"), "is not what this build writes"),
        ("outcomes/chapters/one.json", ("one.qmd", "six.qmd"), "is of chapters/six.qmd, which is"),
        ("outcomes/chapters/one.json", ('"problems": []', '"problems": [1]'), "not what this"),
    ],
)
def test_a_spoilt_result_is_never_used(empty, results, name, change, message):
    path = results / "a" / name
    path.write_text(path.read_text().replace(*change))
    assert any(message in problem for problem in refused(empty, results))


def test_machines_that_disagree_are_told(empty, results, tmp_path):
    shutil.copytree(results / "a", results / "c")
    assert len(merge(now(empty), [results])) == 2  # twice the same is no contradiction
    other = results / "c/outcomes/chapters/one.json"
    content = json.loads(other.read_text())
    content |= {"seal": None, "problems": [["chapters/one.qmd", 7, "cell count: it raised"]]}
    other.write_text(json.dumps(content))
    assert refused(empty, results) == [
        f"{other}: differs from {results / 'a/outcomes/chapters/one.json'}: two machines do not "
        "agree on chapters/one.qmd",
        "chapters/one.qmd:7: cell count: it raised",
    ]


def test_alike_machines_that_show_different_bytes_are_told(empty, results):
    """Whole by its own hashes, inside every tolerance, and yet not what the other machine shows."""
    shutil.copytree(results / "a", results / "c")
    place = results / "c/_freeze/chapters/one"
    then = read(place)
    inputs = then.inputs
    origin = ("settings", "modules", "data", "ledger", "libraries", "python")
    now_shown = sealed(
        then.files["execute-results/html.json"].replace(b"number is 42", b"number is 41"),
        then.figures,
        {key: value for key, value in then.numbers.items() if key not in ("format", "freeze")},
        {key: inputs[key] for key in origin},
        inputs["cells"],
        inputs["inlines"],
    )
    write_freeze(now_shown, place)
    outcome = results / "c/outcomes/chapters/one.json"
    outcome.write_text(outcome.read_text().replace(inputs["seal"], now_shown.inputs["seal"]))
    (told,) = refused(empty, results)
    assert told.startswith(f"{outcome}: differs from {results / 'a'}")


def test_drifts_of_all_machines_are_told_together_and_can_be_accepted(executed, tmp_path, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    books.edit(executed / "media/data/half.txt", "0.5", "0.75")
    for name in ("one", "two"):
        run_in(executed, tmp_path / name, name)
    with pytest.raises(ChaptersFailed) as caught:
        merge(now(executed), [tmp_path / "one", tmp_path / "two"])
    first, second = map(str, caught.value.problems)
    assert first.startswith("chapters/one.qmd:17: twice drifted by 21; it must be exact")
    assert "changed   measured.doubles changed" in first
    assert second.startswith("chapters/two.qmd:15: half drifted by 2.5e+05 tolerances")
    assert "changed   media/data/half.txt changed" in second
    drifts = json.loads((executed / ".book/drifts.json").read_text())
    assert {id: drift["got"] for id, drift in drifts.items()} == {"twice": 63, "half": 0.75}


def test_a_run_that_was_stopped_leaves_no_outcome(executed, tmp_path, monkeypatch):
    run_in(executed, tmp_path, "one")
    assert outcome_path(tmp_path, "chapters/one.qmd").is_file()

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bookbuild.execute.execute", killed)
    with pytest.raises(KeyboardInterrupt):
        run_in(executed, tmp_path, "one")
    assert not outcome_path(tmp_path, "chapters/one.qmd").exists()


def test_a_partial_merge_keeps_what_still_holds(executed, tmp_path, books):
    two = books.contents(executed / "_freeze/chapters/two")
    books.edit(executed / "code/measured/doubles.py", "2 *", "2  *")
    run_in(executed, tmp_path, "one")
    assert sorted(merge(now(executed), [tmp_path], partial=True)) == ["chapters/one.qmd"]
    assert books.contents(executed / "_freeze/chapters/two") == two
    assert now(executed).stale == ()


def call(verb, root, *arguments):
    return CliRunner().invoke(main, [verb, "-C", str(root), *map(str, arguments)])


def test_the_commands_end_to_end(executed, tmp_path):
    done = call("run", executed, "--only", "one", "--only", "two", "--to", tmp_path / "r")
    assert done.stdout == f"2 results in {tmp_path / 'r'}: give it to book merge\n"
    assert done.exit_code == 0
    shown = call("merge", executed, "--compare", tmp_path / "r")
    assert shown.stdout == (
        "2 numbers of 2 chapters recomputed, all inside their tolerances; "
        "2 of 2 chapters identical to the freeze, byte for byte\n"
    )
    shutil.rmtree(executed / "_freeze")
    done = call("merge", executed, tmp_path / "r")
    assert (done.stdout, done.exit_code) == ("2 chapters with 2 numbers in _freeze\n", 0)


def test_a_failing_part_exits_1_and_the_merge_tells_it_again(executed, tmp_path, books):
    books.edit(executed / "chapters/two.qmd", "import measured.halves", "import nowhere")
    done = call("run", executed, "--only", "two", "--to", tmp_path / "r")
    message = "chapters/two.qmd:10: cell setup: ModuleNotFoundError: No module named 'nowhere'"
    assert message in done.stderr and done.exit_code == 1
    done = call("merge", executed, "--partial", tmp_path / "r")
    assert message in done.stderr and done.exit_code == 1


@pytest.mark.parametrize(
    ("verb", "arguments", "message", "code"),
    [
        ("run", ("--only", "tow"), "no chapter is called 'tow'", 2),
        ("run", (), "Missing option '--only'", 2),
        ("run", ("--only", "index"), "index.qmd: has no code: there is nothing to run", 1),
        ("merge", (), "Missing argument", 2),
        ("merge", ("--compare", "--partial", "."), "leave out --partial", 2),
    ],
)
def test_what_cannot_be_asked_for(executed, verb, arguments, message, code):
    result = call(verb, executed, *arguments)
    assert message in result.stderr
    assert result.exit_code == code
