"""The measurement beside other tools: the same content for all, fair turns, honest shares."""

import json
import re
import subprocess
import sys
from itertools import count

import pytest
from click.testing import CliRunner

from bookbuild import bench, bench_tools
from bookbuild.bench_book import CELL, EDITED, WORD, eight_pages
from bookbuild.bench_command import RESULTS, put
from bookbuild.bench_tools import LOCK, Tool, check_same, environment_of, nbconvert, our_tool, pins
from bookbuild.bench_write import myst_page, notebook_page, quarto_page, write
from bookbuild.cli import main
from bookbuild.pages import FILTERS, pandoc_path
from bookbuild.problems import BookError
from bookbuild.source import parse

PAGES = eight_pages()
COPY = """
import pathlib, sys
for page in sys.argv[1:]:
    text = pathlib.Path(page + ".txt").read_text()
    value = next(line for line in text.splitlines() if line.startswith("variant = "))[10:]
    pathlib.Path(page + ".html").write_text(text + f"variant {value} of")
"""


def stub(name: str, script: str = COPY, measures: tuple[str, ...] = bench.MEASURES) -> Tool:
    """A tool that builds pages by copying them, in a fraction of a second."""

    def write_pages(pages, folder):
        for page in pages:
            pieces = [getattr(one, "markdown", None) or one.code for one in page.pieces]
            write(folder / f"{page.name}.txt", "\n".join(pieces))

    def commands(names, whole):
        return [[sys.executable, "-I", "-c", script, EDITED]]

    return Tool(name, "1.2", write_pages, commands, "{name}.html", measures)


# The content.


def test_the_book_is_what_the_page_says_of_it():
    with_keras = [page for page in PAGES if any("keras" in cell.code for cell in page.cells)]
    assert len(PAGES) == 8 and len(with_keras) == 4
    assert sum(bool(page.cells) for page in PAGES) == 7
    assert eight_pages() == PAGES


def test_all_spellings_have_the_same_cells():
    for page in PAGES:
        codes = [cell.code for cell in page.cells]
        source = parse(f"{page.name}.qmd", quarto_page(page))
        assert [cell.code.strip() for cell in source.cells] == codes
        myst = re.findall(r"^```\{code-cell\} python3\n(.*?)\n```$", myst_page(page), re.S | re.M)
        assert myst == codes
        cells = json.loads(notebook_page(page))["cells"]
        assert [one["source"] for one in cells if one["cell_type"] == "code"] == codes


def test_an_edit_changes_one_thing_on_one_page_and_never_the_same_twice():
    def differing(name, repetition):
        pages = bench.pages_of(name, repetition)
        return [(old, new) for old, new in zip(PAGES, pages, strict=True) if old != new]

    assert differing(bench.COLD, 1) == differing(bench.NOTHING, 2) == []
    seen = set()
    for repetition in range(3):
        [(old, new)] = differing(bench.ONE_WORD, repetition)
        assert new.name == EDITED and new.cells == old.cells
        words, before = (one.pieces[0].markdown.split() for one in (new, old))
        changed = [(a, b) for a, b in zip(before, words, strict=True) if a != b]
        assert [a for a, _ in changed] == [WORD]
        after = bench.pages_of(bench.CELL, repetition)
        cells = zip(old.cells, next(p for p in after if p.name == EDITED).cells, strict=True)
        [(was, now)] = [(a, b) for a, b in cells if a != b]
        assert was.label == CELL
        seen |= {new.pieces[0].markdown, now.code}
    assert len(seen) == 6


def test_a_file_that_is_the_same_is_not_written_again(tmp_path):
    path = tmp_path / "page.md"
    write(path, "one")
    before = path.stat().st_mtime_ns
    write(path, "one")
    assert path.stat().st_mtime_ns == before
    write(path, "two")
    assert path.read_text() == "two"


# Measuring.


def test_every_repetition_begins_with_another_tool_and_measures_what_each_can(tmp_path):
    ticks = count()
    tools = [stub("book"), stub("one"), stub("two", measures=(bench.COLD, bench.CELL))]
    times = bench.measure(tools, tmp_path, 2, lambda said: None, lambda: float(next(ticks)))
    first = [one.tool for one in times if one.measure == bench.COLD]
    assert first == ["book", "one", "two", "one", "two", "book"]
    assert [one.measure for one in times if one.tool == "two"] == [bench.COLD, bench.CELL] * 2
    assert {one.seconds for one in times} == {1.0}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("print('no such theme'); raise SystemExit(3)", "other:0: failed at cold: no such theme"),
        ("pass", "other:0: built layers.html without 'variant 0 of'"),
        (
            "import pathlib; pathlib.Path('layers.html').write_text('variant 0 of it')",
            "other:0: built layers.html without 'plainly'",
        ),
    ],
)
def test_a_tool_that_builds_nothing_is_not_measured_as_fast(tmp_path, script, said):
    with pytest.raises(BookError) as error:
        bench.measure([stub("other", script)], tmp_path, 1, lambda said: None)
    assert str(error.value) == said.replace(":0:", ":") or str(error.value) == said


def test_shares_are_of_the_fastest_peer_in_the_same_repetition():
    def times(repetition, ours, slow, fast):
        made = {"book": ours, "slow": slow, "fast": fast}
        return [bench.Time(k, bench.COLD, repetition, v, 2 * v) for k, v in made.items()]

    found = bench.summary([*times(0, 6.0, 20.0, 10.0), *times(1, 9.0, 10.0, 30.0)])
    ours = found["book"][bench.COLD]
    assert ours["share"] == {"median": 0.75, "min": 0.6, "max": 0.9}
    assert ours["seconds"] == {"median": 7.5, "min": 6.0, "max": 9.0}
    assert ours["processor"]["median"] == 15.0
    assert found["slow"][bench.COLD]["share"] == {"median": 1.5, "min": 1.0, "max": 2.0}
    assert bench.missed(found) == ["cold: 0.75 of the fastest peer, wanted at most 0.7"]


def test_the_machine_is_described_and_not_named():
    told = bench.machine()
    assert told["cores"] >= 1 and re.fullmatch(r"\d+ GiB", told["memory"]) and told["processor"]
    import socket

    assert socket.gethostname() not in json.dumps(told)
    assert not re.search(r"/\w+/", json.dumps(told))


# The tools.


def test_the_peers_compute_with_the_libraries_of_the_book(tmp_path):
    from pathlib import Path

    root = Path(LOCK).parents[2]
    check_same(root)
    locked = (root / "requirements.lock").read_text(encoding="utf-8")
    version = pins(locked)["keras"]
    moved = locked.replace(f"keras=={version}", "keras==9.9.9")
    (tmp_path / "requirements.lock").write_text(moved, encoding="utf-8")
    with pytest.raises(BookError, match=rf"has keras {re.escape(version)}, .* lock has 9\.9\.9"):
        check_same(tmp_path)


def test_notebooks_are_shared_out_among_as_many_processes_as_jobs(tmp_path):
    tool = nbconvert(tmp_path, 2)
    both = tool.commands(["a", "b", "c"], True)
    assert [[word for word in one if word.endswith(".ipynb")] for one in both] == [
        ["a.ipynb", "c.ipynb"], ["b.ipynb"],
    ]  # fmt: skip
    assert len(tool.commands(["a"], False)) == 1
    assert bench.NOTHING not in tool.measures


def test_no_setting_of_the_person_reaches_a_tool(tmp_path):
    outer = {"PATH": "/bin", "PYTHONPATH": "/x", "JUPYTER_PATH": "/x", "IPYTHONDIR": "/x"}
    given = environment_of(stub("one"), tmp_path / "one", outer)
    assert given["PATH"] == "/bin" and "/x" not in given.values()
    assert given["PYTHONHASHSEED"] == "0"
    ours = environment_of(our_tool(tmp_path, 1), tmp_path / "one", outer)
    assert ours["PYTHONPATH"].endswith("code")


def test_quarto_is_left_out_with_a_sentence_where_it_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_tools, "peers_environment", lambda root, work, say: tmp_path)
    monkeypatch.setattr(bench_tools.shutil, "which", lambda name: None)
    said = []
    names = [tool.name for tool in bench_tools.tools(tmp_path, tmp_path, 2, said.append)]
    assert names == ["book", "Jupyter Book", "nbconvert"]
    assert said == ["Quarto is not on PATH: it is left out"]


# Results.


def spread(value):
    return {"median": value, "min": value / 2, "max": 2 * value}


def results():
    tools = {
        name: {bench.COLD: {"seconds": spread(value), "share": spread(value / 20)}}
        for name, value in (("book", 9.0), ("Zeta", 20.0), ("Alpha", 30.0))
    }
    return {
        "pages": 8, "cells": 46, "repetitions": 3, "jobs": 2, "load": 0.25, "tools": tools,
        "versions": {"book": "this build", "Zeta": "3", "Alpha": "4.5"}, "targets": bench.TARGETS,
    }  # fmt: skip


def page_of(root, *classes):
    text = "\n\n".join(f"::: {{.speed-{name}}}\n:::" for name in classes)
    done = subprocess.run(
        [pandoc_path(), "--to=plain", "--columns=200", f"--lua-filter={FILTERS / 'speed.lua'}"],
        input=text, env={"BOOK_ROOT": str(root)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.replace("\u2060", "")  # where a range must not be broken


def test_the_page_is_made_from_the_results_alone(tmp_path):
    assert "Not measured yet." in page_of(tmp_path, "peers")
    put(tmp_path, "peers", results())
    rows = [" ".join(line.split()) for line in page_of(tmp_path, "machine", "peers").splitlines()]
    assert "This build 9.00 (4.50–18.0) — — —" in rows
    names = [row.split()[0] for row in rows if re.match(r"(This|Zeta|Alpha) ", row)]
    assert names == ["This", "Alpha", "Zeta"]
    shares = [" ".join(line.split()) for line in page_of(tmp_path, "shares").splitlines()]
    assert "Wanted of this build, at most 0.70 0.30 0.50 0.80" in shares
    assert "Zeta 3 1.00 (0.50–2.00) — — —" in shares


def test_one_part_of_the_results_leaves_the_other_alone(tmp_path):
    put(tmp_path, "peers", results())
    put(tmp_path, "growth", {"rows": [], "load": 0.0, "jobs": 2})
    whole = json.loads((tmp_path / RESULTS).read_text(encoding="utf-8"))
    assert whole["format"] == 1 and whole["peers"]["cells"] == 46 and whole["growth"]["rows"] == []


def test_a_size_without_growth_is_refused():
    result = CliRunner().invoke(main, ["bench", "--size", "10"])
    assert result.exit_code == 2 and "--size goes with --growth" in result.output
