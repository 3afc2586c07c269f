"""Builds under bad luck: killed at any moment, two at once, odd names, clocks and line endings.

After each, a whole site and a usable freeze are there: the old or the new, never a mixture.
"""

import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from bookbuild.freeze import read, why_unusable

BOOK = Path(sys.executable).with_name("book")
TRIALS = 50
HANDS = 2  # books that are killed side by side


def build(root: Path, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [BOOK, "build", "-C", root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def built(root: Path, **options) -> str:
    """Build, and what it said; it must succeed."""
    process = build(root, **options)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


def dressed(root: Path, state: str) -> None:
    """Put the book's sources into one of two states: one chapter must run, one be woven anew."""
    factor = {"A": "2 * x", "B": "x + x"}[state]
    (root / "code/measured/doubles.py").write_text(f"def twice(x):\n    return {factor}\n")
    two = root / "chapters/two.qmd"
    text = re.sub(r"\n\nThis is state .\.\n\Z", "\n", two.read_text())
    two.write_text(f"{text.rstrip()}\n\nThis is state {state}.\n")


@pytest.fixture(scope="module")
def states(books, tmp_path_factory):
    """The site and the freeze of either state, from undisturbed builds; seconds that one takes."""
    root = books.write(tmp_path_factory.mktemp("states") / "book")
    found = {}
    seconds = 0.0
    for state in "ABA":
        dressed(root, state)
        started = time.monotonic()
        built(root)
        seconds = time.monotonic() - started
        seen = tuple(books.contents(root / folder) for folder in ("_book", "_freeze"))
        assert found.setdefault(state, seen) == seen, "the same sources give the same bytes"
    assert found["A"] != found["B"]
    return root, found, seconds


def freezes(contents: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    """The files of each chapter's freeze."""
    found: dict[str, dict[str, bytes]] = {}
    for name, content in contents.items():
        chapter, _, rest = name.partition("/execute-results/")
        found.setdefault(chapter, {})[rest] = content
    return found


def finished_site(root: Path) -> bool:
    """Whether a build has rendered all pages and has not yet put them in place."""
    return any(root.glob(".book/build-*/freeze/chapters/*/execute-results/numbers.json"))


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.002)


def test_a_build_killed_at_any_moment_leaves_a_whole_site_and_a_usable_freeze(
    states, books, tmp_path
):
    original, expected, seconds = states
    sites = [site for site, _ in expected.values()]
    parts = [freezes(freeze) for _, freeze in expected.values()]
    moments = random.Random(2026)

    def hand(number: int) -> list[str]:
        root = Path(shutil.copytree(original, tmp_path / f"book{number}"))
        faults = []
        for trial in range(TRIALS // HANDS):
            dressed(root, "BA"[trial % 2])
            process = build(root)
            if trial // 2 % 2:
                # Side by side a build takes longer than it did alone.
                delay = moments.uniform(0, 1.6 * seconds)
            else:  # when all is computed and things are put in place
                wait_for(lambda p=process: finished_site(root) or p.poll() is not None)
                delay = moments.uniform(0, 0.1)
            try:
                process.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            where = f"book {number}, trial {trial}, killed after {delay:.2f} s"
            if books.contents(root / "_book") not in sites:
                faults.append(f"{where}: the site is neither of the two")
            for chapter, files in freezes(books.contents(root / "_freeze")).items():
                if files not in [part[chapter] for part in parts]:
                    faults.append(f"{where}: the freeze of {chapter} is neither of the two")
                if why_unusable(read(root / "_freeze" / chapter)):
                    faults.append(f"{where}: the freeze of {chapter} is not usable")
        dressed(root, "B")
        built(root)
        if books.contents(root / "_book") != expected["B"][0]:
            faults.append(f"book {number}: the build after the last kill is not as it should be")
        if left := {path.name for path in (root / ".book").iterdir() if "-" in path.name}:
            faults.append(f"book {number}: left behind {left}")
        return faults

    with ThreadPoolExecutor(HANDS) as pool:
        assert [fault for faults in pool.map(hand, range(HANDS)) for fault in faults] == []


def test_two_whole_builds_at_once_give_one_good_site(states, books, tmp_path):
    original, expected, _ = states
    root = Path(shutil.copytree(original, tmp_path / "book"))
    dressed(root, "B")
    processes = [build(root), build(root)]
    outputs = sorted(process.communicate(timeout=120)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert [output.partition(",")[0] for output in outputs] == ["1 ran", "nothing changed; " + str(
        root / "_book/index.html\n")]  # fmt: skip
    assert books.contents(root / "_book") == expected["B"][0]


def as_everybody() -> None:
    """Give up root's right to write where permissions forbid it; in the new process only."""
    drop, dac_override, dac_read_search = 24, 1, 2  # PR_CAPBSET_DROP, and two capabilities
    call = getattr(ctypes.CDLL(None), "prctl", None)
    for capability in (dac_override, dac_read_search) if call and os.geteuid() == 0 else ():
        call(drop, capability, 0, 0, 0)


@pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")
def test_a_folder_that_may_not_be_written_is_told_in_one_line(states, books, tmp_path):
    original, expected, _ = states
    root = Path(shutil.copytree(original, tmp_path / "book"))
    dressed(root, "B")
    site = root / "_book"
    for folder in (root, site, site / "chapters"):
        folder.chmod(0o555)
    process = build(root, preexec_fn=as_everybody)
    _, errors = process.communicate(timeout=120)
    for folder in (root, site, site / "chapters"):
        folder.chmod(0o755)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == (
        f"{site}: Permission denied; _book and _freeze are still those of the last good build"
    )
    assert "Traceback" not in errors
    assert books.contents(site) == expected["A"][0]
    assert built(root).startswith(("nothing to execute", "1 rewoven"))
    assert books.contents(site) == expected["B"][0]


@pytest.mark.parametrize("years", [-20, 20])
def test_no_clock_hides_a_change_or_makes_one_up(states, books, tmp_path, years):
    """Decisions come from contents: files of the future and of the past are read all the same."""
    original, expected, _ = states
    root = Path(shutil.copytree(original, tmp_path / "book"))
    then = time.time() + years * 365 * 86400
    for path in root.rglob("*"):
        if "_book" not in path.parts:
            os.utime(path, (then, then))
    assert built(root).startswith("nothing to execute")
    assert built(root).startswith("nothing changed")
    module = root / "code/measured/doubles.py"
    moment = module.stat()
    dressed(root, "B")
    os.utime(module, ns=(moment.st_atime_ns, moment.st_mtime_ns))
    assert built(root).startswith("1 ran")
    assert books.contents(root / "_book") == expected["B"][0]


def test_line_endings_of_a_checkout_change_nothing(states, books, tmp_path):
    original, expected, _ = states
    root = Path(shutil.copytree(original, tmp_path / "book"))
    for path in [*root.rglob("*.qmd"), *root.rglob("*.py"), root / "ledger.toml"]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    for path in (root / "_freeze").rglob("*.*"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert "nothing to execute" in built(root) or "nothing changed" in built(root)
    pages = {n: c for n, c in books.contents(root / "_book").items() if n.endswith(".html")}
    assert pages == {n: c for n, c in expected["A"][0].items() if n.endswith(".html")}


def test_names_with_blanks_and_other_letters(books, tmp_path):
    """Chapter, data and folder: built, fresh, linked, and found by the page that cites them."""
    chapters = {
        "index.qmd": "# Preface {.unnumbered}\n\nSee @sec-größe.\n",
        "chapters/Größe & Maß.qmd": books.chapters["chapters/one.qmd"].replace(
            "Between", "## Größe {#sec-größe}\n\nBetween"
        ),
        "chapters/zwei 2.qmd": books.chapters["chapters/two.qmd"].replace(
            "half.txt", "ein halb.txt"
        ),
    }
    files = {**books.files, "media/data/ein halb.txt": "0.5\n"}
    root = books.write(tmp_path / "mein Büch", chapters, files=files)
    assert built(root).startswith("2 ran")
    assert built(root).startswith("nothing changed")
    pages = {path.name for path in (root / "_book/chapters").glob("*.html")}
    assert pages == {"Größe & Maß.html", "zwei 2.html"}
    preface = (root / "_book/index.html").read_text()
    hrefs = {unquote(unescape(href)) for href in re.findall(r'href="([^"]*)"', preface)}
    assert "chapters/Größe & Maß.html#sec-größe" in hrefs
    (root / "media/data/ein halb.txt").write_text("0.50\n")
    assert "1 ran" in built(root)


def test_a_renamed_chapter_leaves_no_stale_page_and_no_stale_freeze(states, books, tmp_path):
    original, _, _ = states
    root = Path(shutil.copytree(original, tmp_path / "book"))
    (root / "chapters/two.qmd").rename(root / "chapters/second.qmd")
    books.edit(root / "_quarto.yml", "chapters/two.qmd", "chapters/second.qmd")
    assert built(root).startswith("1 ran")
    names = {path.name for path in (root / "_book/chapters").glob("*.html")}
    assert names == {"one.html", "second.html"}
    folders = {path.name for path in (root / "_freeze/chapters").iterdir()}
    assert folders == {"one", "second"}
    for page in (root / "_book").rglob("*.html"):
        assert "two.html" not in page.read_text()
