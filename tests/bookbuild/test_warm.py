"""Kernels forked from one process: the same as kernels started alone, and gone as surely."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bookbuild import warm
from bookbuild.execute import execute
from bookbuild.project import load_project
from bookbuild.run import Failure, Run
from bookbuild.source import parse
from bookbuild.variables import kernel_environment
from bookbuild.warm import Nurseries, Nursery, imported, libraries, nurseries
from conftest import cell, chapter, write_book

pytestmark = pytest.mark.skipif(not warm.possible(), reason="forks only on Linux")


def source_of(*cells):
    return parse("chapters/a.qmd", chapter(*cells))


# Deciding what is imported ahead.


def test_imports_are_read_from_code_in_all_their_forms():
    code = (
        "import numpy as np, keras.ops\nfrom a.b import c as d, e\n"
        "from f import (\n    g,\n    h,\n)\n"
        "def later():\n    import scipy\nx = 'import nothing'\n"
    )
    assert list(imported(code)) == [
        "numpy", "keras.ops", "a.b", "a.b.c", "a.b.e", "f", "f.g", "f.h",
    ]  # fmt: skip


def test_libraries_are_found_through_the_modules_of_the_project(tmp_path):
    files = {
        "measured/__init__.py": "",
        "measured/one.py": "from measured import two\n",
        "measured/two.py": "from keras import ops\n",
        "measured/three.py": "import torch\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    direct = source_of(cell("from measured.one import x\nimport numpy as np"))
    assert libraries(direct, tmp_path, {}) == {"keras", "numpy"}
    assert libraries(source_of(cell("import measured")), tmp_path, {}) == set()


# What a chapter finds.

NUMPY = chapter(
    cell("import sys\nimport numpy as np", "setup"),
    cell(
        "import multiprocessing\nprint([name for name, one in sys.modules.items() if "
        "(getattr(one, '__file__', None) or '').endswith('warm' + '_child.py')])",
        "files",
    ),
    cell("print(np.arange(3).sum(), np.random.default_rng(7).integers(9))", "draw"),
    cell("sorted(name for name in sys.modules if name.startswith('numpy.li'))[:3]", "loaded"),
    "The mean is `{python} float(np.mean([1, 2]))`.\n",
)
PLAIN = chapter(cell("import sys\nprint('numpy' in sys.modules, sys.path[0] == '')"))
MISTAKEN = chapter(cell("text = '''\nimport numpy\n'''\nimport sys\nprint('numpy' in sys.modules)"))
TEXTS = {"index.qmd": "# P {.unnumbered}\n", "chapters/a.qmd": NUMPY, "chapters/b.qmd": PLAIN,
         "chapters/c.qmd": MISTAKEN}  # fmt: skip


def runs_of(root, forked):
    project = load_project(root)
    sources = [parse(c.path, project.source(c)) for c in project.chapters[1:]]
    environment = kernel_environment(root)
    with nurseries(root, sources, environment) as given:
        return execute(
            project, sources, jobs=2, timeout=60, environment=environment,
            warm=given if forked else None,
        )  # fmt: skip


def test_a_forked_kernel_gives_what_one_started_alone_gives_and_records_the_same(tmp_path):
    root = write_book(tmp_path, TEXTS, ledger=None, files={"_environment": "PYTHONHASHSEED=0\n"})
    alone, forked = runs_of(root, False), runs_of(root, True)
    for one, other in zip(alone, forked, strict=True):
        assert isinstance(one, Run) and isinstance(other, Run)
        assert one.pieces == other.pieces and one.figures == other.figures
        assert one.record == other.record
    assert "numpy" in forked[0].record["libraries"]
    # This one only seemed to import it: it has run in a kernel of its own, and recorded nothing.
    assert "numpy" not in forked[2].record["libraries"]
    assert "False" in forked[2].pieces[1].markdown


def test_a_failing_cell_is_told_with_its_line(tmp_path):
    texts = {"index.qmd": "# P {.unnumbered}\n", "chapters/a.qmd": chapter(cell("1 / 0"))}
    root = write_book(tmp_path, texts, ledger=None, files={})
    [failure] = runs_of(root, True)
    assert isinstance(failure, Failure) and "ZeroDivisionError" in str(failure.problems[0])
    assert failure.problems[0].line == 7


# How they end.


def test_what_cannot_import_gives_way_to_kernels_started_alone(tmp_path, monkeypatch):
    texts = {"index.qmd": "# P {.unnumbered}\n", "chapters/a.qmd": PLAIN}
    root = write_book(tmp_path, texts, ledger=None, files={})
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(1)\n")
    monkeypatch.setattr(warm, "CHILD", broken)
    [run] = runs_of(root, True)
    assert isinstance(run, Run)


def test_what_is_kept_serves_the_next_build_unless_it_ended_or_is_for_another_lock(tmp_path):
    sources, environment = [parse("a.qmd", PLAIN)], dict(os.environ)
    with Nurseries() as kept:

        def started(variables):
            with nurseries(tmp_path, sources, variables, kept) as given:
                return given["a.qmd"].process

        first = started(environment)
        assert started(environment) is first and first.poll() is None
        (tmp_path / "requirements.lock").write_text("numpy==1\n")
        second = started(environment)
        assert second is not first and first.poll() is not None
        third = started({**environment, "SEED": "1"})
        assert third is not second and second.poll() is not None
        third.kill()
        third.wait()
        last = started({**environment, "SEED": "1"})
        assert last is not third and last.poll() is None
    assert last.poll() is not None


def forked_sleeper(folder: Path) -> tuple[Nursery, int]:
    """A process to fork from, and the number of a kernel that it has forked."""
    process = warm._start(folder, "", dict(os.environ), folder)
    log, connection = folder / "log", folder / "kernel.json"
    log.touch()
    nursery = Nursery(process)
    pid = nursery.fork(["-f", str(connection)], dict(os.environ), str(folder), str(log))
    return nursery, pid


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not runs(pid)


@pytest.mark.parametrize("way", ["ended", "killed", "deserted"])
def test_no_kernel_outlives_the_process_it_was_forked_from(tmp_path, way):
    nursery, pid = forked_sleeper(tmp_path)
    try:
        assert runs(pid)
        if way == "killed":
            nursery.process.send_signal(signal.SIGKILL)
        elif way == "deserted":  # whoever asked for it is gone: nobody will ask again
            nursery.process.stdin.close()
        else:
            nursery.end()
        assert gone_within(pid, 20)
    finally:
        if way != "ended":
            nursery.process.kill()
            nursery.process.wait()
            nursery.process.stdout.close()
            if way == "killed":
                nursery.process.stdin.close()


def test_a_build_that_is_killed_leaves_no_process(tmp_path):
    sleeping = chapter(cell("import time\nprint('asleep', flush=True)\ntime.sleep(600)"))
    texts = {"index.qmd": "# P {.unnumbered}\n", "chapters/a.qmd": sleeping}
    root = write_book(tmp_path, texts, ledger=None, files={})
    environment = {**os.environ, "PYTHONPATH": str(Path(warm.__file__).parents[1])}
    build = subprocess.Popen(
        [sys.executable, "-m", "bookbuild", "execute", "-C", str(root)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    nursery, kernel = 0, 0
    until = time.monotonic() + 60
    while not kernel and time.monotonic() < until:
        time.sleep(0.1)
        nursery = nursery or child_of(build.pid)
        kernel = child_of(nursery) if nursery else 0
    assert kernel
    build.kill()
    build.wait()
    assert gone_within(nursery, 20) and gone_within(kernel, 20)


def child_of(pid: int) -> int:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(found[0]) if found else 0
