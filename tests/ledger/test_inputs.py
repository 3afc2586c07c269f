"""What a run was computed from is recorded, and what differs today is put in words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.inputs import RUNNING, Inputs, changes, file_digest, locked_versions, minor, module_name

CODE = Path(__file__).resolve().parents[2] / "code"
# printf 'x\n' | sha256sum
X = "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"


def recorded(root: Path, code: str) -> dict:
    """What a recorder notes while `code` runs in a process of its own, in the folder `chapters`."""
    (root / "chapters").mkdir(exist_ok=True)
    script = f"""
import json, sys
sys.path.insert(0, {str(root / "code")!r})
from pathlib import Path
from ledger.inputs import Recorder, locked_versions
recorder = Recorder(Path({str(root)!r}))
{code}
root = Path({str(root)!r})
libraries = recorder.libraries(locked_versions(root))
print(json.dumps([recorder.modules(), recorder.data(), libraries]))
"""
    process = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=root / "chapters",
        env={**os.environ, "PYTHONPATH": str(CODE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(
        zip(("modules", "data", "libraries"), json.loads(process.stdout), strict=True)
    )  # fmt: skip


@pytest.fixture
def root(tmp_path):
    (tmp_path / "code/measured").mkdir(parents=True)
    (tmp_path / "code/measured/__init__.py").touch()
    (tmp_path / "code/measured/masks.py").write_text("x\n".replace("x", "X = 1"))
    (tmp_path / "code/measured/table.json").write_text("x\n")
    (tmp_path / "media/data").mkdir(parents=True)
    for number in range(1, 9):
        (tmp_path / f"media/data/{number}.txt").write_text("x\n")
    return tmp_path.resolve()


def test_files_are_seen_however_python_opens_them(root):
    other = root.parent / f"{root.name}-outside.txt"
    other.write_text("x\n")
    (root / "media/data/link.txt").symlink_to(other)
    (root / "media/data/inner.txt").symlink_to("8.txt")
    found = recorded(
        root,
        f"""
import os, io
open("../media/data/1.txt").close()
Path("../media/data/2.txt").read_text()
os.close(os.open(Path("../media/data/3.txt"), os.O_RDONLY))
open(b"../media/data/4.txt").close()
io.FileIO("../media/data/5.txt").close()
os.chdir("..")
open("media/data/6.txt").close()
open("media/data/link.txt").close()
open("media/data/inner.txt").close()
open({str(other)!r}).close()
open("media/data/7.txt", "a").close()
open("written.txt", "w").close()
open("code/measured/table.json").close()
try: open("media/data/missing.txt")
except OSError: pass
""",
    )
    names = ["1", "2", "3", "4", "5", "6", "inner", "link"]
    assert found["data"] == {
        "code/measured/table.json": X, **{f"media/data/{name}.txt": X for name in names},
    }  # fmt: skip
    assert found["modules"] == {}


def test_what_the_machinery_itself_reads_is_no_data(root):
    for name in ("ledger.toml", "_quarto.yml", "requirements.lock", "one.qmd", "_freeze/a.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    found = recorded(
        root,
        "for name in ('ledger.toml', '_quarto.yml', 'one.qmd', '_freeze/a.json'):\n"
        "    open('../' + name).close()",
    )
    assert found["data"] == {}


def test_modules_are_those_that_were_imported(root):
    found = recorded(root, "import measured.masks")
    assert sorted(found["modules"]) == ["code/measured/__init__.py", "code/measured/masks.py"]
    assert found["modules"]["code/measured/masks.py"] == file_digest(
        root / "code/measured/masks.py"
    )
    assert found["data"] == {}


def test_a_file_edited_during_the_run_matches_nothing_afterwards(root):
    found = recorded(
        root,
        "import measured.masks\n"
        "open('../media/data/1.txt').close()\n"
        "Path('../code/measured/masks.py').write_text('X = 2')\n"
        "Path('../media/data/1.txt').write_text('longer')\n",
    )
    then = Inputs(found["modules"], found["data"])
    assert changes(then, root, {}, {}) == ["measured.masks changed", "media/data/1.txt changed"]


def test_libraries_are_the_locked_ones_that_were_imported(root):
    (root / "requirements.lock").write_text("pyyaml==1.0 ; x\nclick==2\nipykernel==3\n")
    found = recorded(root, "import yaml")
    assert sorted(found["libraries"]) == ["ipykernel", "pyyaml"]
    assert found["libraries"]["pyyaml"] != "1.0"  # the version that really ran


def test_each_kind_of_change_is_put_in_words(root):
    (root / "media/data/1.txt").write_text("other\n")
    then = Inputs(
        modules={"code/measured/masks.py": X, "code/measured/gone.py": X},
        data={"media/data/1.txt": X, "media/data/2.txt": X},
        ledger={"same": "1", "moved": "1", "lost": "1"},
        libraries={"numpy": "2.4.6", "keras": "3.14.0", "old": "1.0"},
    )
    locked = {"numpy": frozenset({"2.4.6", "2.5"}), "keras": frozenset({"3.15.1"})}
    assert changes(then, root, {"same": "1", "moved": "2"}, locked) == [
        "measured.gone is gone",
        "measured.masks changed",
        "media/data/1.txt changed",
        "ledger entry lost is gone",
        "ledger entry moved changed",
        "keras was 3.14.0, is 3.15.1",
        "old was 1.0, is no longer locked",
    ]
    assert changes(Inputs(data={"media/data/2.txt": X}), root, {}, {}) == []


def test_another_python_is_a_change_where_both_are_known(root):
    assert minor("3.11.7") == "3.11" and minor("3.12") == "3.12"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" == RUNNING
    then = Inputs(python="3.2")
    assert changes(then, root, {}, {}) == [f"Python was 3.2, is {RUNNING}"]
    assert changes(then, root, {}, {}, python="3.2") == []
    assert changes(then, root, {}, {}, python="") == changes(Inputs(), root, {}, {}) == []


def test_without_a_lock_that_can_be_read_libraries_are_not_compared(root):
    assert changes(Inputs(libraries={"keras": "3.14.0"}), root, {}, None) == []


def test_inputs_are_read_back_from_a_record():
    record = {"modules": {"m": "1"}, "data": {"d": "2"}, "ledger": {"l": "3"}, "libraries": {}}
    assert Inputs.of(record) == Inputs({"m": "1"}, {"d": "2"}, {"l": "3"}, {}, "")
    assert Inputs.of(record | {"python": "3.11", "more": 1}).python == "3.11"


def test_a_second_run_reads_anew_and_keeps_what_only_the_first_one_read(root):
    found = recorded(
        root,
        "open('../media/data/1.txt').close(); open('../media/data/2.txt').close()\n"
        "open('../media/data/3.txt').close()\n"
        "for n in '12': Path(f'../media/data/{n}.txt').write_text('longer')\n"
        "recorder.again()\n"
        "open('../media/data/1.txt').close()\n",
    )
    changed = ["media/data/2.txt changed"]  # a module may still hold what it was
    assert changes(Inputs(data=found["data"]), root, {}, {}) == changed
    assert found["data"]["media/data/3.txt"] == X


def test_what_every_kernel_needs_for_itself_is_no_library_of_the_chapter(root):
    (root / "requirements.lock").write_text("tornado==1\npyzmq==1\npyyaml==1\nipykernel==1\n")
    found = recorded(root, "import tornado, zmq, yaml")
    assert sorted(found["libraries"]) == ["ipykernel", "pyyaml"]


def test_line_endings_of_a_checkout_do_not_matter(tmp_path):
    (tmp_path / "unix").write_bytes(b"x\n")
    (tmp_path / "windows").write_bytes(b"x\r\n")
    assert file_digest(tmp_path / "unix") == file_digest(tmp_path / "windows") == X
    assert file_digest(tmp_path / "missing") is file_digest(tmp_path) is None


def test_names_of_modules():
    assert module_name("code/measured/masks.py") == "measured.masks"
    assert module_name("code/measured/__init__.py") == "measured"


def test_a_lock_may_name_two_versions_of_a_library(tmp_path):
    (tmp_path / "requirements.lock").write_text(
        "Foo_Bar==1.0 ; python_version < '3.12' \\\n    --hash=sha256:00\nfoo-bar==2.0\n# x==3\n"
    )
    assert locked_versions(tmp_path) == {"foo-bar": frozenset({"1.0", "2.0"})}


def test_without_a_lock_the_installed_versions_count(tmp_path):
    locked = locked_versions(tmp_path)
    assert "no-such-library" not in locked
    assert len(locked.get("pytest")) == 1
