"""The repository itself: its front door, its environment, and what may not be in it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.source import parse

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SCRIPT = ROOT / "code/bookbuild/environment.sh"


def tracked() -> list[Path]:
    """Files of the repository, or, outside of git, all that is neither made nor a cache."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0 and listing.stdout:
        return [path for name in listing.stdout.split("\0")[:-1] if (path := ROOT / name).is_file()]
    made = {".venv", ".git", ".book", "_book", "__pycache__"}
    return [p for p in ROOT.rglob("*") if p.is_file() and not made & set(p.relative_to(ROOT).parts)]


def test_help_lists_every_target_with_a_line():
    help = subprocess.run(
        ["make", "-C", ROOT], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    listed = re.findall(r"^make ([a-z-]+) +\S", help, re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split()
    assert sorted(listed) == sorted(name for name in phony if not name.startswith("."))
    assert {"site", "test", "verify", "stale", "serve", "clean", "help"} <= set(listed)


def test_the_readme_names_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make site" in readme and "quarto render" in readme


# Somebody's home, folders of one machine or of temporary files, another package index.
PLACES = re.compile(
    rb"/(?:home|Users)/[a-z]+/|/(?:root|work)/|/tmp/[a-z]|--(?:extra-)?index-url|[a-z]+://localhost:"
)


def test_no_file_names_a_place_of_one_machine():
    texts = [path for path in tracked() if path.suffix not in (".woff2", ".png", ".ttf", ".woff")]
    assert len(texts) > 50
    found = [
        f"{path.relative_to(ROOT)}: {place.group().decode()}"
        for path in texts
        if (place := PLACES.search(path.read_bytes()))
    ]
    assert found == []


def test_every_chapter_of_the_book_can_be_read():
    project = load_project(ROOT)
    problems = []
    for chapter in project.chapters:
        try:
            source = parse(chapter.path, project.source(chapter))
        except BookError as error:
            problems += map(str, error.problems)
        else:
            assert all(cell.label for cell in source.cells)
    assert problems == []


def test_the_lock_of_the_tests_holds_that_of_the_book():
    def pins(name):
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))

    book = pins("requirements.lock")
    assert len(book) > 50
    assert book <= pins("requirements-test.lock")


# How the environment is made: what the script decides, with a Python that only notes its calls.

STUB = """\
#!/bin/sh
case "$1" in
-c) exit ${VERSION_IS_WRONG:-0} ;;
--version) echo "Python 3.12.0" ;;
-m)
  echo "$(basename "$0") $*" >>"$CALLS"
  if [ "$2" = venv ]; then
    mkdir -p .venv/bin && cp "$0" .venv/bin/python
  fi
  case "$*" in *"$FAIL"*) echo "it failed" >&2; exit 1 ;; esac ;;
esac
"""


@pytest.fixture
def project(tmp_path):
    """A project's folder and a PATH with the few tools the script uses and no real Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cmp", "cat", "cp", "mkdir", "rm", "env", "basename", "echo"):
        (tools / name).symlink_to(shutil.which(name))
    (tools / "python3").write_text(STUB)
    (tools / "python3").chmod(0o755)
    for name in ("requirements.lock", "requirements-test.lock", "pyproject.toml"):
        (tmp_path / name).write_text(f"{name}\n")
    calls = tmp_path / "calls"

    def make(lock="requirements.lock", fail="no such call", **variables):
        calls.write_text("")
        process = subprocess.run(
            ["sh", SCRIPT, lock],
            cwd=tmp_path,
            env={"PATH": str(tools), "CALLS": str(calls), "FAIL": fail, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        made = [line.replace("--quiet --quiet ", "") for line in calls.read_text().splitlines()]
        return process.returncode, process.stderr, made

    make.root = tmp_path
    return make


BOOK = "python -m pip install --no-deps --require-hashes -r requirements.lock"
TESTS = "python -m pip install --no-deps --require-hashes -r requirements-test.lock"
SELF = "python -m pip install --no-deps --no-build-isolation --editable ."
VENV = "python3 -m venv .venv"


def test_the_environment_is_made_once(project):
    code, said, calls = project()
    assert (code, calls) == (0, [VENV, BOOK, SELF])
    assert said == (
        "making .venv with Python 3.12.0 from requirements.lock: about a minute and 2.5 GB\n"
    )
    assert project() == (0, "", [])


def test_the_tests_add_to_the_environment_of_the_book(project):
    project()
    code, said, calls = project("requirements-test.lock")
    assert (code, said, calls) == (0, "adding to .venv what the tests need\n", [TESTS, SELF])
    assert project("requirements-test.lock") == project() == (0, "", [])


def test_touching_the_lock_makes_nothing_and_changing_it_makes_all_anew(project):
    project()
    lock = project.root / "requirements.lock"
    lock.write_text(lock.read_text())
    assert project() == (0, "", [])
    (project.root / ".venv/old").touch()
    lock.write_text("newer\n")
    assert project()[2] == [VENV, BOOK, SELF]
    assert not (project.root / ".venv/old").exists()


def test_new_metadata_of_the_project_installs_only_the_project(project):
    project()
    (project.root / "pyproject.toml").write_text("newer\n")
    assert project() == (0, "", [SELF])


def test_a_project_that_was_moved_gets_a_new_environment(project):
    project()
    (project.root / ".venv/made-from/place").write_text("/elsewhere\n")
    assert project()[2] == [VENV, BOOK, SELF]


@pytest.mark.parametrize("fail", ["pip", "--editable"])
def test_an_installation_that_failed_is_repeated(project, fail):
    code, said, _ = project(fail=fail)
    assert code == 1 and said.endswith("it failed\n")
    code, said, calls = project()
    assert code == 0 and SELF in calls
    assert "No such file" not in said


def test_without_venv_the_message_names_the_package(project):
    code, said, _ = project(fail="venv")
    assert code == 1
    assert said.endswith(
        '"python3 -m venv" failed; on Debian and Ubuntu install python3-venv first\n'
    )
    assert not (project.root / ".venv").exists()


def test_without_a_fitting_python_the_message_says_how_to_name_one(project):
    code, said, calls = project(VERSION_IS_WRONG="1")
    assert (code, calls) == (1, [])
    assert said.startswith("No Python 3.11, 3.12 or 3.13 on PATH")
    assert "make PYTHON=/path/to/python3.12 site" in said


def test_a_named_python_is_used(project):
    other = project.root / "tools/mine"
    shutil.copy(project.root / "tools/python3", other)
    assert project(PYTHON=os.fspath(other))[2][0] == "mine -m venv .venv"


def test_an_installed_wheel_checks_numbers_far_from_the_book(tmp_path):
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    code = (
        "from ledger import check\n"
        "from measured.embeddings import load_glove\n"
        "print(check('pe-pairs', 4950), len(load_glove(words=['king'])))"
    )
    elsewhere = tmp_path / "notebooks"
    elsewhere.mkdir()
    outer = {key: value for key, value in os.environ.items() if not key.startswith("QUARTO")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{code}"],
        cwd=elsewhere, capture_output=True, text=True, check=False,
        env={**outer, "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("4950 1\n", "")
