"""The doctor: every sign gives its sentence and what to do, and a sound machine gives neither."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bookbuild import doctor
from bookbuild.cli import main

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_700_000_000.0


def told(finding):
    return finding.state, finding.said, finding.do


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10, 9), "wrong"), ((3, 11, 0), "well"), ((3, 13, 7), "well"), ((3, 14, 0), "wrong")],
)
def test_pythons_that_tensorflow_has_no_build_for_are_wrong(version, state):
    found = doctor.python(version, Path("/usr/bin/python3"))
    assert found.state == state
    assert ("make PYTHON=" in found.do) == (state == "wrong")


@pytest.mark.parametrize(
    ("said", "state", "text"),
    [
        (None, "note", "not found; none is needed: make site renders without it"),
        ("1.10.18", "well", "1.10.18"),
        ("1.9.38", "note", "1.9.38: the pages are tested with 1.10"),
        ("", "note", "found, but it does not say its version: the pages are tested with 1.10"),
    ],
)
def test_quarto(said, state, text):
    assert told(doctor.quarto(said))[:2] == (state, text)


@pytest.mark.parametrize(
    ("named", "programs", "state", "do"),
    [
        (None, {"chromium"}, "well", ""),
        ("/opt/mine", {"/opt/mine"}, "well", ""),
        ("/opt/mine", {"chromium"}, "wrong", "unset CHROMIUM, or let it name one"),
        (None, {"google-chrome"}, "note", "export CHROMIUM=/bin/google-chrome"),
        (None, set(), "note", "Debian: apt-get install chromium; elsewhere let CHROMIUM name one"),
    ],
)
def test_chromium(named, programs, state, do):
    def which(name):
        return f"/bin/{name}" if name in programs else None

    found = doctor.chromium(named, which)
    assert (found.state, found.do) == (state, do)


def test_java_and_node():
    assert doctor.java('openjdk version "17.0.15" 2025-04-15').state == "well"
    assert told(doctor.java('java version "8.0.1"'))[:2] == ("note", "version 8 is older than 11")
    assert "only the tests" in doctor.java(None).said
    assert [doctor.node(said).state for said in ("v20.20.2", "v18.2.0", None)] == [
        "well",
        "note",
        "note",
    ]


def test_disk():
    assert doctor.disk(1e9, has_environment=True).state == "well"
    assert told(doctor.disk(1e9, has_environment=False)) == (
        "wrong",
        "1.0 GB free, making the environment needs 4.0",
        "make room",
    )


@pytest.mark.parametrize(
    ("newest", "commit", "what"),
    [
        (NOW - 9, NOW - 9, None),
        (NOW + 200, NOW + 200, None),  # another machine's clock, a little ahead
        (NOW - 9, NOW + 4000, "the newest commit, of 2023-11-14 23:20"),
        (NOW + 4000, NOW - 9, "the newest source file, of 2023-11-14 23:20"),
    ],
)
def test_a_clock_that_is_behind_what_was_done(newest, commit, what):
    found = doctor.clock(NOW, newest, commit)
    assert found.state == ("wrong" if what else "well")
    assert what is None or what in found.said


def test_packages_that_are_not_as_locked():
    pins = {"keras": ["3.15.1"], "numpy": ["2.4.0", "2.4.1"], "babel": ["2.18"]}
    assert doctor.differing(pins, {"keras": "3.14.0", "numpy": "2.4.1"}) == [
        "babel is missing, locked 2.18",
        "keras is 3.14.0, locked 3.15.1",
    ]


@pytest.fixture
def venv(executed):
    """The small book with an environment of one package, made from its lock."""

    def make(installed="2.0", place=executed, lock="2.0"):
        (executed / "requirements.lock").write_text(
            f'one==1.0 ; sys_platform == "nowhere"\nTwo_Parts=={lock} \\\n    --hash=sha256:0\n'
        )
        info = executed / f".venv/lib/python3.11/site-packages/two_parts-{installed}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: two-parts\nVersion: {installed}\n")
        (executed / ".venv/made-from").mkdir()
        (executed / ".venv/made-from/place").write_text(f"{place}\n")
        return doctor.environment(executed)

    return make


def test_an_environment_as_locked(venv):
    assert told(venv()) == ("well", "as requirements.lock says", "")


def test_an_environment_that_is_not_as_locked(venv):
    assert told(venv("1.9")) == (
        "wrong",
        "1 package not as requirements.lock says: two-parts is 1.9, locked 2.0",
        "rm -rf .venv, then make site",
    )


def test_an_environment_that_was_moved(venv):
    assert venv(place="/elsewhere").said == "was made in another folder, whose paths are in it"


def test_no_environment(tmp_path):
    assert told(doctor.environment(tmp_path)) == ("wrong", "there is no .venv", "make site")


def test_a_fresh_freeze(executed):
    assert [told(one) for one in doctor.freeze(executed)] == [("well", "fresh", "")]


def test_a_stale_chapter_and_a_changed_sentence(executed, books):
    books.edit(executed / "chapters/two.qmd", "The end.", "Fin.")
    (found,) = doctor.freeze(executed)
    assert (found.state, found.said) == (
        "note",
        "only the prose of 1 chapter changed; make site weaves it in",
    )
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    assert [told(one) for one in doctor.freeze(executed)] == [
        ("wrong", "chapters/one.qmd is stale: measured.doubles changed", "make site")
    ]


def test_a_tampered_freeze_can_be_taken_back(executed, books):
    books.edit(
        executed / "_freeze/chapters/one/execute-results/html.json", "number is 42", "number is 43"
    )
    (found,) = doctor.freeze(executed)
    assert told(found) == (
        "wrong",
        "chapters/one.qmd: its html.json is not the one its inputs were recorded for",
        "git checkout -- _freeze/chapters/one (or make site, which executes the chapter)",
    )


def test_another_python_is_one_line_for_all_chapters(executed, monkeypatch):
    monkeypatch.setattr("ledger.inputs.changes.__defaults__", ("3.99",))
    (found,) = doctor.freeze(executed)
    assert found.said.startswith("another Python than this one made it (Python was 3.")
    assert found.said.endswith("is 3.99): a build executes 2 chapters")


def test_sources_that_cannot_be_read(executed):
    (executed / "chapters/one.qmd").write_text("```{python}\nx\n```\n")
    (found,) = doctor.freeze(executed)
    assert (found.what, found.state) == ("sources", "wrong")
    assert found.said.startswith("chapters/one.qmd:1: cell without a label")


def test_without_packages_the_freeze_is_not_looked_at(executed, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (found,) = doctor.freeze(executed)
    assert told(found)[:2] == ("note", "not looked at: yaml is not installed here")


def test_a_place_that_cannot_be_written_to(executed, monkeypatch):
    def refuse(dir):
        if dir.name == "_freeze":
            raise PermissionError(13, "Permission denied")
        return (dir / ".book-doctor").open("w+")

    (executed / "_book").write_text("a file in the place of the folder\n")
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    found = doctor.writable(executed)
    assert [told(one)[:2] for one in found] == [
        ("wrong", "_book cannot be written to: Not a directory"),
        ("wrong", "_freeze cannot be written to: Permission denied"),
    ]
    assert found[0].do.startswith("remove it") and "chown" in found[1].do


def test_the_command_exits_1_when_something_has_to_be_done(executed, monkeypatch):
    def answer(*states):
        found = [doctor.Finding(f"sign {s}", s, "said", "do it" * (s != "well")) for s in states]
        monkeypatch.setattr(doctor, "examine", lambda root: found)
        return CliRunner().invoke(main, ["doctor", "-C", str(executed)])

    calm = answer("well", "note")
    assert calm.stdout == (
        "ok     sign well  said\nnote   sign note  said\n"
        "                  → do it\nnothing has to be done\n"
    )
    assert calm.exit_code == 0
    result = answer("well", "wrong")
    assert (result.stdout.splitlines()[-1], result.exit_code) == ("1 thing to put right", 1)
    shown = CliRunner().invoke(main, ["doctor", "-C", str(executed), "--json"])
    assert [row["state"] for row in json.loads(shown.stdout)] == ["well", "wrong"]


def test_the_doctor_comes_to_a_machine_without_any_package():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import runpy, sys; sys.path.insert(0, 'code'); "
         "runpy.run_module('bookbuild.doctor', run_name='__main__')"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "not looked at: yaml is not installed here" in done.stdout
    assert done.stderr == "" and done.returncode in (0, 1)


def test_an_old_python_can_read_the_doctor():
    """Syntax of Python 3.8, and no import at the top that it lacks."""
    text = Path(doctor.__file__).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    names = {
        alias.name.partition(".")[0] if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names <= {*sys.stdlib_module_names, "__future__"} - {"tomllib"}
