"""Why a number may have moved: each kind of change is named, and nothing else is."""

import json
import subprocess

import pytest

from ledger.causes import causes, entry_changed, machine_changes
from ledger.entries import Entry
from ledger.environment import environment
from ledger.inputs import file_digest

ENTRY = Entry("norm", "Length", 7.07, 1e-6, "float32", "closed form")


@pytest.fixture
def frozen(tmp_path):
    """A book of one chapter whose last good run is recorded; writes the record anew."""
    module = tmp_path / "code/measured/positions.py"
    module.parent.mkdir(parents=True)
    module.write_text("one\n")
    data = tmp_path / "media/data/words.txt"
    data.parent.mkdir(parents=True)
    data.write_text("a\n")
    folder = tmp_path / "_freeze/chapters/one/execute-results"
    folder.mkdir(parents=True)
    inputs = {
        "modules": {"code/measured/positions.py": file_digest(module)},
        "data": {"media/data/words.txt": file_digest(data)},
        "ledger": {"norm": ENTRY.digest()},
        "libraries": {},
    }

    def record(libraries=None, **machine):
        text = json.dumps(inputs | {"libraries": libraries or {}})
        (folder / "inputs.json").write_text(text)
        numbers = {"environment": environment() | machine}
        (folder / "numbers.json").write_text(json.dumps(numbers))
        return tmp_path

    return record


def found(root):
    return causes(root, "chapters/one.qmd")


def test_nothing_changed(frozen):
    assert found(frozen()) == []


def test_an_installed_library_is_the_cause_whatever_the_lock_says(frozen):
    root = frozen(libraries={"numpy": "1.0", "pytest": pytest.__version__})
    (root / "requirements.lock").write_text("numpy==1.0\n")
    (cause,) = found(root)
    assert cause.startswith("numpy was 1.0, is 2.")


def test_a_module_and_a_data_file_are_named(frozen):
    root = frozen()
    (root / "code/measured/positions.py").write_text("two\n")
    (root / "media/data/words.txt").unlink()
    assert found(root) == ["measured.positions changed", "media/data/words.txt is gone"]


def test_a_module_is_named_with_the_commit_that_changed_it(frozen):
    root = frozen()
    (root / "code/measured/positions.py").write_text("two\n")

    def git(*arguments):
        who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)

    git("init")
    git("add", "-A")
    assert found(root) == ["measured.positions changed (not committed)"]
    git("commit", "-m", "Turn the table")
    (cause,) = found(root)
    assert cause.startswith("measured.positions changed (last in ")
    assert cause.endswith(" Turn the table)")


@pytest.mark.parametrize(
    ("machine", "phrase"),
    [
        ({"python": "3.10.1"}, "Python was 3.10.1, now "),
        ({"threads": 77}, "threads were 77, now "),
        ({"cpu": ["amx_tile9"]}, "the processor lacks amx_tile9"),
    ],
)
def test_a_change_of_the_machine_is_named(frozen, machine, phrase):
    assert found(frozen(**machine))[0].startswith(phrase)


def test_another_blas_kernel_is_named():
    then = {"blas": ["openblas 0.3.30 SkylakeX"]}
    now = {"blas": ["openblas 0.3.30 Haswell"]}
    assert machine_changes(then, now) == [
        "BLAS was openblas 0.3.30 SkylakeX, is openblas 0.3.30 Haswell"
    ]
    assert machine_changes(then, {"blas": []}) == [], "not loaded yet says nothing"


def test_only_the_numbers_own_entry_counts(frozen):
    root = frozen()
    assert not entry_changed(root, "chapters/one.qmd", ENTRY)
    moved = Entry("norm", "Length", 7.08, 1e-6, "float32", "closed form")
    assert entry_changed(root, "chapters/one.qmd", moved)
