"""The workflows' own steps, run in clones by `.ci/local.py`, as GitHub would, with a small book."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stub_libraries import CHAPTERS, LEDGER, NEW_KERAS, NEW_NUMPY, OLD, environment

ROOT = Path(__file__).resolve().parents[2]
BOOK = Path(sys.executable).with_name("book")
QUARTO = """\
#!/bin/sh
# Says a version; renders as the book itself does, or as it is told.
case "$1" in
--version) echo "${QUARTO_IS:-1.10.18}" ;;
render) "$BOOK" render >/dev/null && sh -c "${THEN:-true}" ;;
esac
"""
GH = """\
#!/bin/sh
# Notes what it is asked for; an issue is open if ISSUE names its file.
echo "$*" >>"$CALLS"
case "$1 $2" in
"issue list") [ -z "$ISSUE" ] || echo 7 ;;
"issue view") cat "$ISSUE" ;;
esac
"""
PYTHON = """\
#!/bin/sh
# Notes its calls; makes an "environment" that holds itself.
echo "$*" >>"$CALLS"
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""


def git(root, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True)


def committed(root: Path) -> Path:
    """A repository with the book in `root` and this project's workflows."""
    for name in (".ci", ".github"):
        shutil.copytree(ROOT / name, root / name)
    shutil.rmtree(root / ".book", ignore_errors=True)
    (root / ".gitignore").write_text(".book\n_book\n__pycache__\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "All of it")
    return root


@pytest.fixture
def tools(tmp_path):
    """A folder for PATH with stand-ins of programs that are not here; they note their calls."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("quarto", QUARTO), ("gh", GH), ("python-stub", PYTHON)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def tried(tmp_path, tools):
    """Run a workflow of a repository; exit code, what was said, and where everything lies."""

    def run(root, workflow, *options, **variables):
        folder = tmp_path / f"trial-{workflow}"
        shutil.rmtree(folder, ignore_errors=True)
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("GIT", "QUARTO"))}
        done = subprocess.run(
            [sys.executable, ROOT / ".ci/local.py", f".github/workflows/{workflow}.yml",
             "--repository", root, "--folder", folder, "--jobs", "2", *options],
            capture_output=True, text=True, check=False,
            env={**outer, "PATH": f"{tools}:{outer['PATH']}", "BOOK": str(BOOK),
                 "CALLS": str(tmp_path / "calls"), "ISSUE": "", **variables},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr, folder

    return run


@pytest.fixture
def repository(executed):
    return committed(executed)


def test_a_sound_book_is_verified_and_published(repository, tried):
    code, said, folder = tried(repository, "publish", "--skip", "tests")
    assert code == 0, said
    assert "actions/deploy-pages: not here" in said
    # Each chapter was executed in a clone of its own, and what came is the committed freeze.
    assert len(list(folder.glob("chapter-*/clone"))) == 2
    log = (folder / "log").read_text()
    assert "2 of 2 chapters identical to the freeze, byte for byte" in log
    for name in ("one", "two"):
        made = folder / f"artifacts/results-{name}/_freeze/chapters/{name}"
        for path in made.rglob("*.json"):
            kept = repository / "_freeze/chapters" / name / path.relative_to(made)
            assert path.read_bytes() == kept.read_bytes()
    site = folder / "artifacts/site"
    assert (site / "chapters/one.html").is_file()
    # What can be taken away is published with it, and Colab finds the notebooks alone.
    assert {path.suffix for path in site.iterdir()} >= {".html", ".md", ".pdf", ".epub", ".txt"}
    pushed = folder / "github/book.git"
    listed = ["git", "-C", pushed, "ls-tree", "--name-only", "notebooks"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    assert {"one.ipynb", "one-with-outputs.ipynb", "two.ipynb"} <= set(names)
    assert all(name.endswith((".ipynb", ".whl")) for name in names)
    said = ["git", "-C", pushed, "log", "--format=%s", "notebooks"]
    messages = subprocess.run(said, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(messages) == 1 and messages[0].startswith("Notebooks built from ")


def test_a_drift_and_a_typed_number_are_red(repository, tried, books):
    books.edit(repository / "code/measured/doubles.py", "2 *", "3 *")
    git(repository, "commit", "-qam", "A slip")
    code, said, folder = tried(repository, "publish", "--skip", "tests")
    assert code == 1
    assert "site: not due" in said and "deploy: not due" in said
    assert "one: FAILED at .ci/part.sh" in said and "two: ok" in said
    assert "all numbers together: FAILED at .ci/merge.sh" in said
    report = (folder / "artifacts/drift-report/drift-report.txt").read_text()
    assert report.startswith("1 of 2 recomputed numbers moved.")
    assert "twice drifted by 21; it must be exact" in report

    books.edit(repository / "chapters/two.qmd", "The end.", "The end is 0.123.")
    git(repository, "commit", "-qam", "A number nobody owns")
    code, said, folder = tried(repository, "verify", "--skip", "tests")
    assert code == 1 and "plan: FAILED at .ci/plan.sh" in said and "0.123" in said
    assert not list(folder.glob("chapter-*"))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"QUARTO_IS": "1.9.1"}, "quarto is 1.9.1, the book is published with 1.10.18"),
        (
            {"THEN": "echo x >_freeze/chapters/one/execute-results/html.json"},
            "quarto executed something; the committed freeze was stale",
        ),
        ({"THEN": "sed -i 's/>42</>43</' _book/chapters/one.html"}, "FAILED at .ci/check-site.sh"),
    ],
)
def test_a_site_that_is_not_as_verified_is_not_handed_on(repository, tried, variables, message):
    code, said, folder = tried(repository, "preview", **variables)
    assert code == 1 and message in said
    assert not (folder / "artifacts/preview").exists()


@pytest.fixture
def watched(tmp_path, books, monkeypatch):
    """The book of two stub libraries, committed; the Python it is locked to, and a newer one."""
    from bookbuild.execute import execute

    locked = environment(tmp_path / "locked", *OLD)
    newer = environment(tmp_path / "newer", NEW_KERAS, NEW_NUMPY)
    root = books.write(tmp_path / "watched", CHAPTERS, LEDGER)
    (root / "requirements.lock").write_text("stubkeras==3.15.1\nstubnumpy==2.4.0\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            "bookbuild.execute.execute", lambda *a, **o: execute(*a, **{**o, "python": locked})
        )
        books.bring_up_to_date(root)
    return committed(root), locked, newer


def test_a_release_that_moves_a_number_becomes_one_issue(watched, tried, tmp_path):
    root, locked, newer = watched
    script = root / ".ci/watch-numbers.sh"
    script.write_text(script.read_text().replace("--name", f"--locked {locked} --name"))
    git(root, "commit", "-qam", "The environment of the stubs is not that of the command")
    # Through a relative path, as that of the workflow is.
    (root / "newer").symlink_to(Path(newer).parents[1])
    git(root, "add", "newer")
    git(root, "commit", "-qm", "Where the newer libraries are")
    variables = {"WATCH_PYTHON": "newer/bin/python", "PYTHON": str(tmp_path / "tools/python-stub")}
    code, said, folder = tried(root, "watch", **variables)
    assert code == 0, said
    report = folder / "artifacts/report/report.md"
    text = report.read_text()
    assert text.startswith("1 number moves.\n")
    assert text.count("stubkeras 3.15.1 → 3.16.0, alone") == 2  # newest and pre-release
    assert "mean" not in text and "pure" not in text
    calls = (tmp_path / "calls").read_text().splitlines()
    asked = [call for call in calls if call.startswith(("issue", "label"))]
    assert [call.split(" --")[0] for call in asked] == [
        "issue list", "label create watch", "issue create",
    ]  # fmt: skip
    assert "--body-file watch/report.md" in asked[-1]
    upgrades = [call for call in calls if "--upgrade" in call]
    assert [" --pre " in call for call in upgrades].count(True) == len(upgrades) / 2 == 2
    for call in upgrades:
        # Keras 2 alone: what it asks for would replace the build of TensorFlow.
        assert ("--no-deps" in call) == call.endswith(" tf-keras") != call.endswith("scikit-learn")


def carried(tools, tmp_path, report, issue=None):
    """What the script asks `gh` for, given a report and the body of the open issue."""
    (tmp_path / "report.md").write_text(report)
    if issue is not None:
        (tmp_path / "issue").write_text(issue)
    calls = tmp_path / "calls"
    calls.write_text("")
    subprocess.run(
        [ROOT / ".ci/watch-issue.sh", tmp_path / "report.md"],
        check=True, capture_output=True,
        env={"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "RUN": "run 1",
             "ISSUE": str(tmp_path / "issue") if issue is not None else ""},
    )  # fmt: skip
    return [call.split(" --")[0] for call in calls.read_text().splitlines()][1:]


def test_there_is_never_more_than_one_issue(tools, tmp_path):
    well, moved, more = "Everything holds.\n\nx\n", "1 number moves.\n", "2 numbers move.\n"
    assert carried(tools, tmp_path, well) == []
    assert carried(tools, tmp_path, moved) == ["label create watch", "issue create"]
    assert carried(tools, tmp_path, moved, issue=moved) == ["issue view 7"]
    assert carried(tools, tmp_path, more, issue=moved) == [
        "issue view 7", "issue edit 7", "issue comment 7",
    ]  # fmt: skip
    assert carried(tools, tmp_path, well, issue=moved) == ["issue edit 7", "issue close 7"]


def test_a_watch_without_a_result_is_something_to_look_at(tmp_path):
    (tmp_path / "watch").mkdir()
    subprocess.run(
        [ROOT / ".ci/watch-report.sh", "newest"], cwd=tmp_path, check=True,
        env={**os.environ, "BOOK": str(BOOK)},
    )  # fmt: skip
    text = (tmp_path / "watch/report.md").read_text()
    assert text.startswith("no result of newest and links.\n")
    assert "## newest\n\nWithout a result: its job failed before it had one." in text


def test_what_is_not_understood_is_an_error(repository, tried):
    path = repository / ".github/workflows/preview.yml"
    path.write_text("jobs:\n  a:\n    steps:\n      - uses: someone/unknown@1234\n")
    code, said, _ = tried(repository, "preview")
    assert code == 1
    assert said == "someone/unknown@1234: what this action does is not known here\n"
