"""Numbers on other backends: the verdicts, the locks, and a small book whose cells look around.

No backend is installed here. The small book runs under the usual Python, and its "library" is the
environment variable that Keras would read.
"""

import json
import math
import re
import subprocess
import sys

import pytest

from bookbuild import backend_pythons, backends
from bookbuild.backend_pythons import BACKENDS, python_for
from bookbuild.backends import DIFFERS, OWN, RAISED, SAME, Reading, needless, places_of, problems
from bookbuild.build import plan
from bookbuild.pages import FILTERS, pandoc_path
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.source import parse
from ledger.entries import Entry, load_ledger
from ledger.inputs import locked_versions

LEDGER = """\
[tied]
draws = "the random numbers are others"
own = "a text of TensorFlow"

[free]
statement = "Free"
value = 42
tolerance = 0
reason = "a count"
source = "arithmetic"

[drawn]
statement = "Drawn"
value = 0.5
tolerance = 0.125
reason = "a draw"
source = "measured here"
tied = "draws"

[text]
statement = "Text"
value = "of tensorflow"
tolerance = 0
reason = "a text"
source = "measured here"
tied = "own"
"""
CHAPTER = """\
---
title: "Looks around"
---

```{python}
#| label: look
import os
from ledger import check
backend = os.environ["KERAS_BACKEND"]
check("free", 6 * 7)
if backend == "torch":
    raise ValueError("this has no way here")
```

```{python}
#| label: draw
drawn = {"jax": 0.9, "torch": 0.1}.get(backend, 0.5)
if SAME_DRAWS:
    drawn = 0.5625
for letters in ("wn",):
    check(f"dra{letters}", drawn)
```

```{python}
#| label: text
check("text", f"of {backend}")
```

It is `{python} unknown`.
"""
FIRST = "import builtins; builtins.SAME_DRAWS = {}"


@pytest.fixture
def book(books, tmp_path, monkeypatch):
    """A small book, planned; `edit(old, new)` changes its chapter and plans it again."""
    root = books.write(tmp_path, {"index.qmd": "# Hello\n", "chapters/one.qmd": CHAPTER}, LEDGER)
    (root / "requirements.lock").write_text("keras==3.15.1\n")
    own, same = FIRST.format(False), FIRST.format(True)

    def environments(backend, python):
        variables = {"KERAS_BACKEND": backend.name}
        return tuple(
            backends.Environment(name, variables, python, first)
            for name, first in ((backend.name, own), (f"{backend.name} same", same))
        )

    monkeypatch.setattr(backends, "environments", environments)
    return root


def verify(root, **options):
    heard = []
    found, said = backends.verify(
        plan(load_project(root)), jobs=2, timeout=60, told=heard.append,
        python_of=lambda root, backend, told: sys.executable, **options,
    )  # fmt: skip
    return [str(problem) for problem in found], said, heard


def agreement(root):
    return json.loads((root / backends.RESULTS).read_text(encoding="utf-8"))["agreement"]


def test_each_entry_is_compared_and_a_cell_that_raises_ends_no_chapter(book):
    found, said, heard = verify(book)
    assert found == []
    assert agreement(book) == {
        "free": {"jax": OWN, "torch": OWN},
        "drawn": {"jax": SAME, "torch": SAME},
        "text": {"jax": DIFFERS, "torch": DIFFERS},
    }
    assert said[0].startswith("1 of 3 entries (33.3%) are not tied\nJAX: 1 of 1 agree; of those")
    assert "tied, though" not in "\n".join(said)
    assert len([line for line in heard if "numbers" in line]) == 4, "two backends, two draws"
    assert verify(book)[:2] == (found, said)
    assert not [line for line in verify(book)[2] if "numbers" in line], "all of it is kept"


def test_what_the_ledger_does_not_say_is_a_problem_with_its_line(books, book):
    ledger = book / "ledger.toml"
    free = LEDGER.replace('tied = "draws"\n', "")
    ledger.write_text(free.replace('tied = "own"', 'tied = "draws"'))
    books.edit(book / "chapters/one.qmd", '"free", 6 * 7', '"free", 6 * 7 + (backend == "jax")')
    found, _, _ = verify(book)
    assert found == [
        "chapters/one.qmd:10: free on JAX is 43, expected 42",
        "chapters/one.qmd:21: drawn agrees on JAX only with TensorFlow's draws of random numbers; "
        "if that is all, say so in ledger.toml: tied = 'draws'",
        "chapters/one.qmd:21: drawn agrees on PyTorch only with TensorFlow's draws of random "
        "numbers; if that is all, say so in ledger.toml: tied = 'draws'",
        "chapters/one.qmd:26: text on JAX is of jax, expected of tensorflow, and so it does with "
        "TensorFlow's draws: 'draws' is not why",
        "chapters/one.qmd:26: text on PyTorch is of torch, expected of tensorflow, and so it does "
        "with TensorFlow's draws: 'draws' is not why",
    ]


def test_what_was_not_computed_is_told_with_the_error(books, book):
    books.edit(book / "chapters/one.qmd", 'check("free", 6 * 7)\n', "")
    books.edit(book / "chapters/one.qmd", 'way here")\n', 'way here")\ncheck("free", 6 * 7)\n')
    found, _, _ = verify(book, names=["torch"])
    assert found == [
        "chapters/one.qmd:12: free was not computed on PyTorch: cell look: "
        "ValueError: this has no way here"
    ]
    assert not (book / backends.RESULTS).exists(), "only a run over everything writes it"


def test_one_chapter_alone_is_compared_but_not_written(book):
    found, said, _ = verify(book, chapters=["one"])
    assert (found, len(said)) == ([], 1)
    assert not (book / backends.RESULTS).exists()


def test_a_mark_that_nothing_needs_is_named():
    ledger = {
        id: Entry(id, "S", 1, 0, "r", "s", tied=tied)
        for id, tied in (("a", "draws"), ("b", "draws"), ("c", ""))
    }
    readings = {
        "jax": {"a": Reading(OWN), "b": Reading(OWN), "c": Reading(OWN)},
        "torch": {"a": Reading(OWN), "b": Reading(SAME), "c": Reading(OWN)},
    }
    assert needless(ledger, readings) == ["a"]


def test_an_entry_that_differs_needs_a_mark_whatever_differs(tmp_path):
    ledger = {
        "a": Entry("a", "S", 1, 0, "r", "s"),
        "b": Entry("b", "S", 1, 0, "r", "s", tied="own"),
    }
    places = {"a": ("chapters/one.qmd", 3), "b": ("chapters/one.qmd", 4)}
    for how in (SAME, DIFFERS, RAISED):
        readings = {"jax": {id: Reading(how, math.inf, "x") for id in ledger}}
        assert [p.line for p in problems(tmp_path, ledger, places, readings)] == [3]


def test_the_cell_that_checks_an_id_is_found_also_where_the_id_is_put_together():
    code = "x = 1\ncheck(\n    'one', x)\ncheck(f\"two-{x}-b\", x)"
    text = f"\n\n```{{python}}\n#| label: a\n{code}\n```\n"
    ledger = dict.fromkeys(("one", "two-1-b", "two-c", "three"))
    found = places_of([parse("chapters/one.qmd", text)], ledger)
    assert found == {"one": ("chapters/one.qmd", 7), "two-1-b": ("chapters/one.qmd", 8)}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda backend: backend.name)
def test_the_locks_share_their_versions_and_name_hashes(backend):
    text = backend.lock.read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    assert {name for name, _ in pins} >= set(backend.libraries)
    assert len(re.findall(r"^[\w.-]+==.*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(pins)
    base = locked_versions(backends.Path(__file__).parents[2])
    shared = {name: version for name, version in pins if name in base}
    assert shared and all(version in base[name] for name, version in shared.items())
    assert not {"keras", "tensorflow"} & {name for name, _ in pins}


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A backend whose lock names nothing to install, and the usual Python without its pip."""
    lock = tmp_path / "backends-jax.lock"
    lock.write_text("# nothing\n")
    (tmp_path / "requirements.lock").write_text("click==0.0.1\n")
    monkeypatch.setattr(backend_pythons.Backend, "lock", lock)
    return lock


def test_an_environment_beside_other_libraries_than_the_locked_ones_is_refused(offline, tmp_path):
    with pytest.raises(
        BookError, match=r"JAX would run beside other .* click is [\d.]+, not 0\.0\.1"
    ):
        python_for(tmp_path, BACKENDS["jax"], lambda line: None)
    assert not (tmp_path / ".book/backends/jax/made-from.json").exists(), "made anew next time"


def test_an_environment_has_the_book_s_own_libraries_and_is_made_once(offline, tmp_path):
    (tmp_path / "requirements.lock").write_text("")
    told = []
    python = python_for(tmp_path, BACKENDS["jax"], told.append)
    assert told == ["JAX: making .book/backends/jax from backends-jax.lock"]
    asked = subprocess.run(
        [python, "-c", "import click; print(click.__file__)"], capture_output=True, text=True
    )
    import click

    assert asked.stdout.strip() == click.__file__
    assert python_for(tmp_path, BACKENDS["jax"], told.append) == python
    assert len(told) == 1
    offline.write_text("# still nothing\n")
    python_for(tmp_path, BACKENDS["jax"], told.append)
    assert len(told) == 2


def test_a_lock_that_cannot_be_installed_is_named(offline, tmp_path):
    offline.write_text("/nowhere/at.all-1.0-py3-none-any.whl\n")
    with pytest.raises(
        BookError, match=r"^backends-jax\.lock: no environment could be made from it"
    ):
        python_for(tmp_path, BACKENDS["jax"], lambda line: None)


def page(root, kind):
    done = subprocess.run(
        [str(pandoc_path()), "--to=html5", "--wrap=none", f"-L{FILTERS / 'backends.lua'}"],
        input=f"::: {{.backends-{kind}}}\n:::\n",
        capture_output=True, text=True, encoding="utf-8", env={"BOOK_ROOT": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_the_results_and_when_they_are_old(books, book):
    assert "have not been tried yet" in page(book, "summary")
    verify(book)
    assert page(book, "summary") == (
        "<p>Of the 3 entries of the ledger, 1 are not tied to TensorFlow: 33.3 %. Within their "
        "tolerances agree all on JAX and all on PyTorch.</p>\n"
    )
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page(book, "table"))
    assert cells[0] == "JAX" and cells[2:7] == ["<code>free</code>: 0.00", "1", "1", "1", "0"]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page(book, "ties"))
    assert cells == [
        "the random numbers are others", "1", "0", "1", "0", "1",
        "a text of TensorFlow", "1", "0", "0", "0", "0",
    ]  # fmt: skip
    (book / "ledger.toml").write_text(LEDGER.replace("[free]", "[freed]"))
    books.edit(book / "code/measured/doubles.py", "2 *", "2  *")
    old = page(book, "summary")
    assert "These results are out of date." in old and "2 entries came or went since." in old
    assert "<code>code/measured/doubles.py</code></p>" in old


def test_results_of_another_format_are_refused(book):
    verify(book)
    path = book / backends.RESULTS
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(
        AssertionError, match=r"backends\.json has format 2, not 1; run make backends"
    ):
        page(book, "table")


def test_the_ledger_of_the_book_says_why_for_every_reason_that_it_uses():
    root = backends.Path(__file__).parents[2]
    ledger = load_ledger(root / "ledger.toml")
    used = {entry.tied for entry in ledger.values()} - {""}
    assert used == set(backends.load_ties(root / "ledger.toml"))
