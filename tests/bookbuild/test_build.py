"""A build replaces everything or nothing, whatever happens to it."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bookbuild import build as building
from bookbuild.build import ChaptersFailed, plan
from bookbuild.freeze import read
from bookbuild.problems import BookError
from bookbuild.project import load_project

BOOK = Path(sys.executable).with_name("book")
THREE = '```{python}\n#| label: setup\nfrom ledger import check, say\ncheck("half", 0.5)\n```\n'


@pytest.fixture
def built(executed, site, books):
    """The small book with its pages; what it looks like is kept beside it."""
    books.bring_up_to_date(executed, render=True)
    return executed


def state(root: Path, books) -> dict[str, bytes]:
    """All that a reader or Quarto sees of a build."""
    return {
        f"{folder}/{name}": content
        for folder in ("_book", "_freeze")
        for name, content in books.contents(root / folder).items()
    }


def messages(caught) -> list[str]:
    return [str(problem) for problem in caught.value.problems]


def leftovers(root: Path) -> set[str]:
    """Unfinished work below .book."""
    known = {"lock", "drifts.json", "drift-report.txt", "read.json", "site.json", "kept", "pages"}
    known |= {"took.json", "claims.json", "finding.json", "copies"}
    return {path.name for path in (root / ".book").iterdir()} - known


def test_a_first_build_then_nothing_to_do(built, site, books):
    assert site() == 1
    assert (built / "_book/chapters/one.html").is_file()
    report = books.bring_up_to_date(built, render=True)
    assert report.up_to_date and site() == 1
    assert report.fresh == ("index.qmd", "chapters/one.qmd", "chapters/two.qmd")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / "_book/index.html").unlink(),
        lambda root: (root / "_book/index.html").write_text("edited"),
        lambda root: (root / "_book/extra.html").touch(),
        lambda root: shutil.rmtree(root / ".book"),
        lambda root: (
            (root / "media/data/half.txt").touch() or (root / "media/new.svg").write_text("<svg/>")
        ),
    ],
    ids=["page gone", "page edited", "page too many", "caches gone", "new media"],
)
def test_a_spoiled_site_is_rendered_again_without_executing(built, site, books, spoil):
    spoil(built)
    report = books.bring_up_to_date(built, render=True)
    assert (report.ran, site()) == ((), 2)
    assert not (built / "_book/extra.html").exists()


def test_a_changed_word_starts_no_kernel_and_gives_the_new_page(built, site, books, monkeypatch):
    monkeypatch.setattr("bookbuild.execute.execute", lambda *_, **__: pytest.fail("executes"))
    books.edit(built / "chapters/one.qmd", "Between them.", "Amid them.")
    report = books.bring_up_to_date(built, render=True)
    assert (report.ran, report.woven) == ((), ("chapters/one.qmd",))
    assert "Amid them." in (built / "_book/chapters/one.html").read_text()
    assert [v.state for v in plan(load_project(built)).verdicts] == ["plain", "fresh", "fresh"]


def test_a_drift_leaves_everything_and_says_all_that_is_needed(built, books):
    before = state(built, books)
    books.edit(built / "code/measured/doubles.py", "2 * x", "2 * x + 1")
    with pytest.raises(ChaptersFailed) as caught:
        books.bring_up_to_date(built, render=True)
    (message,) = messages(caught)
    assert message.splitlines() == [
        "chapters/one.qmd:17: twice drifted by 1; it must be exact",
        "  what      Twice 21",
        "  expected  42 exact (a count)",
        "  got       43",
        "  where     chapters/one.qmd:17, cell count",
        "  changed   measured.doubles changed",
        '  if the new value is right: book accept twice --reason "…"',
    ]
    assert state(built, books) == before
    assert leftovers(built) == set()


def test_an_expected_value_that_moved_fails_its_chapter(built, books):
    before = state(built, books)
    books.edit(built / "ledger.toml", "value = 0.5", "value = 0.500003")
    with pytest.raises(ChaptersFailed) as caught:
        books.bring_up_to_date(built, render=True)
    assert messages(caught)[0].startswith("chapters/two.qmd:15: half drifted by 3 tolerances")
    assert "changed   ledger entry half changed" in messages(caught)[0]
    assert state(built, books) == before


def test_a_drift_can_be_accepted_and_then_builds(built, books):
    from bookbuild.accept import accept

    books.edit(built / "code/measured/doubles.py", "2 * x", "2 * x + 1")
    with pytest.raises(ChaptersFailed):
        books.bring_up_to_date(built)
    accept(built, "twice", "a test")
    # The second chapter quotes the number.
    assert books.bring_up_to_date(built).ran == ("chapters/one.qmd", "chapters/two.qmd")
    assert "[43]{.claim" in read(built / "_freeze/chapters/one").markdown


def test_a_drift_that_was_mended_is_not_there_to_accept(built, books):
    from bookbuild.accept import accept

    books.edit(built / "code/measured/doubles.py", "2 * x", "2 * x + 1")
    with pytest.raises(ChaptersFailed):
        books.bring_up_to_date(built)
    books.edit(built / "code/measured/doubles.py", "2 * x + 1", "2 * x")
    assert books.bring_up_to_date(built).ran == ()
    assert accept(built, "twice", "x") == "twice is 42 already"


def test_what_succeeded_in_a_failed_build_is_not_executed_again(built, books):
    books.edit(built / "code/measured/halves.py", "0.5", "0.50")
    books.edit(built / "chapters/one.qmd", "twice(21))", "twice(20))")
    before = state(built, books)
    with pytest.raises(ChaptersFailed) as caught:
        books.bring_up_to_date(built, render=True)
    assert (caught.value.ran, len(caught.value.failures)) == (1, 1)
    assert state(built, books) == before
    books.edit(built / "chapters/one.qmd", "twice(20))", "twice(21))")
    report = books.bring_up_to_date(built, render=True)
    assert (report.ran, report.woven) == ((), ("chapters/two.qmd",))
    assert not (built / ".book/kept").exists()


def test_what_was_executed_is_kept_also_when_rendering_fails(built, books, monkeypatch):
    before = state(built, books)
    books.edit(built / "code/measured/halves.py", "0.5", "0.50")

    def render(*_):
        raise BookError(building.Problem("chapters/one.qmd", 3, "a reference to nothing"))

    with monkeypatch.context() as patch, pytest.raises(BookError, match="a reference to nothing"):
        patch.setattr(building, "_render", render)
        books.bring_up_to_date(built, render=True)
    assert state(built, books) == before
    assert books.bring_up_to_date(built, render=True).ran == ()


def test_a_number_bound_twice_or_never_fails_the_build(built, books):
    before = state(built, books)
    books.edit(built / "_quarto.yml", "execute:", '    - "three.qmd"\nexecute:')
    (built / "three.qmd").write_text(THREE)
    books.edit(built / "ledger.toml", "[half]", LOST + "[half]")
    with pytest.raises(BookError) as caught:
        books.bring_up_to_date(built, render=True)
    assert messages(caught) == [
        "ledger.toml:11: [lost] is checked by no chapter; remove it or use it",
        "three.qmd:4: half is checked by chapters/two.qmd too; give one of them its own entry",
    ]
    assert state(built, books) == before


LOST = '[lost]\nstatement = "L"\nvalue = 1\ntolerance = 0\nreason = "r"\nsource = "s"\n\n'


def test_only_some_chapters(built, books, site):
    (built / "chapters/one.qmd").write_text(books.chapters["chapters/one.qmd"] + "\nMore.\n")
    books.edit(built / "code/measured/halves.py", "0.5", "0.50")
    with pytest.raises(BookError) as caught:
        books.bring_up_to_date(built, render=True, only=["one"])
    assert messages(caught) == ["chapters/two.qmd: is stale: measured.halves changed; build it too"]
    assert site() == 1
    assert books.bring_up_to_date(built, only=["one"]).ran == ()


def test_rendering_alone_refuses_what_is_stale(built, books, site):
    books.edit(built / "code/measured/halves.py", "0.5", "0.50")
    with pytest.raises(
        BookError, match=r"two.qmd: is stale: measured.halves changed; run book exec"
    ):
        books.bring_up_to_date(built, render=True, execute=False)
    assert site() == 1


@pytest.mark.parametrize("fails_at", range(1, 9))
def test_a_full_disk_leaves_everything_as_it_was(built, books, monkeypatch, fails_at):
    for chapter in ("one", "two"):
        path = built / f"chapters/{chapter}.qmd"
        path.write_text(path.read_text() + "\nMore.\n")
    before = state(built, books)
    count, write = 0, Path.write_bytes

    def write_bytes(path, content):
        nonlocal count
        count += 1
        if count == fails_at:
            write(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        try:
            books.bring_up_to_date(built, render=True)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            assert state(built, books) == before
        else:
            assert fails_at > 6  # two chapters of three files each
    assert leftovers(built) == set()
    report = books.bring_up_to_date(built, render=True)
    assert report.ran == ()
    assert b"More." in state(built, books)["_book/chapters/one.html"]


def test_a_removed_chapter_takes_its_freeze_along_but_nothing_else(built, books):
    foreign = built / "_freeze/site_libs/x.js"
    foreign.parent.mkdir()
    foreign.touch()
    foreign_results = built / "_freeze/mine/execute-results/inputs.json"
    foreign_results.parent.mkdir(parents=True)
    foreign_results.write_text("{}")
    books.edit(built / "_quarto.yml", '    - "chapters/two.qmd"\n', "")
    books.edit(
        built / "ledger.toml", '[half]  # of one\nstatement = "Half', '[hal]\nstatement = "Half'
    )
    ledger = (built / "ledger.toml").read_text()
    (built / "ledger.toml").write_text(ledger[: ledger.index("[hal]")])
    books.bring_up_to_date(built, render=True)
    assert (built / "_freeze/chapters/one").is_dir()
    assert not (built / "_freeze/chapters/two").exists()
    assert not (built / "_book/chapters/two.html").exists()
    assert foreign.exists() and foreign_results.exists()


def test_a_folder_that_is_no_site_is_never_replaced(executed, site, books):
    (executed / "_book").mkdir()
    (executed / "_book/thesis.txt").write_text("mine")
    with pytest.raises(
        BookError, match="output-dir _book holds files that are no site; name anothe"
    ):
        books.bring_up_to_date(executed, render=True)
    assert (executed / "_book/thesis.txt").read_text() == "mine"


def test_a_damaged_freeze_is_executed_anew_and_equals_the_lost_one(executed, executed_once, books):
    (executed / "_freeze/chapters/one/execute-results/inputs.json").write_text("<<<<<<<")
    assert books.bring_up_to_date(executed).ran == ("chapters/one.qmd",)
    assert books.contents(executed / "_freeze") == books.contents(executed_once / "_freeze")


def test_an_edited_ledger_while_a_chapter_runs_is_told(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "2  *")
    books.edit(
        executed / "chapters/one.qmd",
        "from ledger import check, say",
        "from pathlib import Path\nfrom ledger import check, say\n"
        "path = Path('../ledger.toml')\n"
        "path.write_text(path.read_text().replace('a count', 'counted'))\n"
        "import ledger.session\nledger.session._session = None\n"
        "ledger.session.session().building = True",
    )
    with pytest.raises(
        BookError, match=r"ledger.toml: was edited while chapters/one.qmd ran; build"
    ):
        books.bring_up_to_date(executed)


# The real command in processes of its own.


def run(root: Path, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        [BOOK, "execute", "-C", root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
        # A shell ignores Ctrl-C for what it starts in the background, these tests perhaps.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )


def wait_for(condition, seconds=30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def interrupted(books, executed_once, tmp_path_factory):
    """Three builds stopped by signals while a cell runs: signal -> what is seen afterwards."""
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]

    def stop(number):
        root = tmp_path_factory.mktemp(number.name) / "book"
        shutil.copytree(executed_once, root)
        began = root / "began"
        books.edit(
            root / "chapters/one.qmd",
            "from measured.doubles import twice",
            f"from measured.doubles import twice\nopen({str(began)!r}, 'w').close()\n"
            "import time\ntime.sleep(0 if open('../speed').read() else 600)",
        )
        (root / "speed").write_text("")
        before = books.contents(root / "_freeze")
        process = run(root)
        assert wait_for(began.exists)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        quiet_at_once = books.kernels_of(root) == []
        quiet_soon = wait_for(lambda: books.kernels_of(root) == [], 15)
        untouched = books.contents(root / "_freeze") == before
        (root / "speed").write_text("fast")
        after = run(root)
        output, _ = after.communicate(timeout=60)
        return {
            "code": process.returncode,
            "errors": errors.splitlines(),
            "quiet at once": quiet_at_once,
            "quiet soon": quiet_soon,
            "untouched": untouched,
            "next": (after.returncode, re.sub(r"[\d.]+ s", "", output)),
            "left": leftovers(root),
        }

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(signals, pool.map(stop, signals), strict=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_build_ends_its_kernels_and_says_one_sentence(interrupted, number):
    seen = interrupted[number]
    assert seen["code"] == 130
    assert seen["errors"][-1] == "stopped; _book and _freeze are still those of the last good build"
    assert len(seen["errors"]) == 2  # and the line that says what it executes
    assert seen["quiet at once"]
    assert seen["untouched"]


def test_kernels_of_a_killed_build_end_by_themselves(interrupted):
    seen = interrupted[signal.SIGKILL]
    assert seen["code"] == -signal.SIGKILL
    assert seen["quiet soon"]
    assert seen["untouched"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_build_after_a_stopped_one_works_and_cleans_up(interrupted, number):
    assert interrupted[number]["next"] == (0, "1 ran in \n")
    assert interrupted[number]["left"] == set()


@pytest.fixture(scope="module")
def elsewhere(books, tmp_path_factory):
    """Two builds at once in one other folder, with another hash seed."""
    root = books.write(tmp_path_factory.mktemp("elsewhere") / "ein Büch 'x'")
    first = run(root, PYTHONHASHSEED="7", USER="somebody", TZ="Asia/Tokyo", OMP_NUM_THREADS="1")
    second = run(root, PYTHONHASHSEED="8")
    results = [process.communicate(timeout=90) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], results
    return root, [output for output, _ in results]


def test_a_freeze_has_the_same_bytes_in_another_folder_and_environment(
    elsewhere, executed_once, books
):
    one, other = (books.contents(root / "_freeze") for root in (elsewhere[0], executed_once))
    assert len(one) == 6
    assert one == other


def test_of_two_builds_at_once_one_executes_and_the_other_finds_it_done(elsewhere):
    outputs = sorted(re.sub(r"[\d.]+ s", "", output) for output in elsewhere[1])
    assert outputs == ["2 ran in \n", "nothing to execute in \n"]


def test_no_freeze_names_the_machine_the_user_or_the_time(executed_once, books):
    year = time.strftime("%Y-")
    for name, content in books.contents(executed_once / "_freeze").items():
        text = content.decode()
        for word in (
            str(executed_once),
            str(Path.home()),
            "/tmp",
            sys.prefix,
            os.uname().nodename,
            year,
        ):
            assert word not in text, name
