"""CONTRIBUTING, followed to the letter: what it says to write is written, what to run is run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# A block, and the prose between it and what stands before.
BLOCK = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
REPLACE = re.compile(r"In `([^`]+)`, replace `([^`]+)` by `([^`]+)`")
BESIDE = re.compile(r"In `([^`]+)`, (above|below) `([^`]+)`, add:$")
END = re.compile(r"at the end of\s+`([^`]+)`:$", re.IGNORECASE)
WRITE = re.compile(r"Write `([^`]+)`;")


def steps():
    """(recipe, what, where, text) for every step. What: run, end, write, above, below, replace."""
    title, position = "", 0
    for block in BLOCK.finditer(TEXT):
        prose = TEXT[position : block.start()].strip()
        position = block.end()
        title = (re.findall(r"^## (.*)$", prose, re.MULTILINE) or [title])[-1]
        if not title:
            continue  # setting up
        for file, old, new in REPLACE.findall(prose):
            yield title, "replace", (file, old), new
        yield title, *_step(title, prose, block[2], block[3])


def _step(title, prose, language, text):
    if language == "sh":
        return "run", None, text
    if found := BESIDE.search(prose):
        return found[2], (found[1], found[3]), text
    if found := END.search(prose):
        return "end", found[1], text
    if found := WRITE.search(prose):
        return "write", found[1], text
    raise AssertionError(f"{title}: nothing says where this goes:\n{text}")


def edit(root, what, where, text):
    path = root / (where if isinstance(where, str) else where[0])
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if what == "write":
        assert not old
        new = text
    elif what == "end":
        new = f"{old}\n{text}"
    else:
        assert old.count(where[1]) == 1, f"{where[1]!r} stands {old.count(where[1])} times"
        new = old.replace(
            where[1],
            {
                "replace": text,
                "below": f"{where[1]}\n{text.rstrip()}",
                "above": f"{text}{where[1]}",
            }[what],
        )
    path.write_text(new, encoding="utf-8")


def follow(root, environment):
    """Every step of every recipe in `root`; (recipe, command, exit code, what it said)."""
    done = []
    for recipe, what, where, text in steps():
        if what != "run":
            edit(root, what, where, text)
            continue
        for line in text.splitlines():
            command, _, comment = line.partition("    # ")
            ran = subprocess.run(
                ["bash", "-c", command], cwd=root, env=environment, capture_output=True, text=True
            )
            said = ran.stdout + ran.stderr
            assert (ran.returncode != 0) == (comment == "fails"), f"{recipe}: {line}\n{said}"
            done.append((recipe, command, ran.returncode, said))
    return done


MASKS = "import numpy as np\n\n\ndef causal_mask(length):\n    return np.tri(length, dtype=bool)\n"
MASKING = """\
---
title: "Masking"
---

```{python}
#| label: setup
#| output: false
import numpy as np

from ledger import check, say
from measured.masks import causal_mask
```

"""
EXERCISES = """\
---
title: "Exercises"
---

```{python}
#| label: setup
#| output: false
import numpy as np
from IPython.display import Markdown

from ledger import check, say
from measured.exercises import exercise
from measured.masks import causal_mask


def ask(*arguments, **options):
    return Markdown(exercise(*arguments, **options))
```

## On paper {#sec-exercises-paper}

## In code {#sec-exercises-code}

Notebooks.
"""


@pytest.fixture
def small(tmp_path, books):
    """A small book with the places that CONTRIBUTING names, this Makefile, and this environment."""
    root = books.write(
        tmp_path / "book",
        {"index.qmd": "# Preface {.unnumbered}\n", "chapters/masking.qmd": MASKING,
         "chapters/exercises.qmd": EXERCISES},
        "# Numbers.\n",
        {"code/measured/__init__.py": "", "code/measured/masks.py": MASKS,
         "code/measured/exercises.py": (ROOT / "code/measured/exercises.py").read_text()},
    )  # fmt: skip
    config = root / "_quarto.yml"
    config.write_text(re.sub(r'"(chapters/\w+\.qmd)"', r"\1", config.read_text()))
    for name in ("Makefile", "requirements.lock", "requirements-test.lock"):
        shutil.copy(ROOT / name, root / name)
    (root / "pyproject.toml").write_text("# This book has no package of its own to offer.\n")
    # `make` finds an environment that is up to date, and makes none.
    made = root / ".venv/made-from"
    made.mkdir(parents=True)
    for name in ("pyproject.toml", "requirements.lock", "requirements-test.lock"):
        shutil.copy(root / name, made / name)
    (made / "place").write_text(f"{root}\n")
    (root / ".venv/bin").mkdir()
    for name in ("book", "python"):
        (root / ".venv/bin" / name).symlink_to(Path(sys.executable).with_name(name))
    shutil.copytree(
        ROOT / "code/bookbuild", root / "code/bookbuild", ignore=lambda _, names: [
            name for name in names if name != "environment.sh" and Path(name).suffix
        ],
    )  # fmt: skip
    return root


def test_it_is_one_page_and_set_up_takes_two_commands():
    assert len(TEXT.splitlines()) <= 200
    first = BLOCK.search(TEXT)
    assert first[3] == "make site\nmake test\n"
    assert first.start() < TEXT.index("\n## ")


def test_its_recipes_are_those_that_a_contributor_needs():
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    for what in ("sentence", "number", "chapter", "figure", "exercise"):
        assert any(what in title for title in titles), what


def test_the_recipes_work_as_written(small):
    before = subprocess.run(
        ["make", "site"], cwd=small, capture_output=True, text=True, env=outer(), check=False
    )
    assert before.returncode == 0, before.stderr
    done = follow(small, outer())
    said = {recipe: [text for title, _, _, text in done if title == recipe] for recipe, *_ in done}
    assert len(done) == 8
    assert "nothing to execute, 1 rewoven" in said["Fix a sentence"][0]
    assert said["Add a number"][0].count(" ran ") == 1
    failed, accepted, again = said["Change a number"]
    assert "mask-kept-pairs drifted by 6; it must be exact" in failed
    assert accepted == "mask-kept-pairs: 15 -> 21; now run make site\n"
    assert "1 ran" in again
    masking = (small / "_book/chapters/masking.html").read_text(encoding="utf-8")
    assert re.search(r'data-claim="mask-kept-pairs"[^>]*>21<', masking)
    chapter = (small / "_book/chapters/my-chapter.html").read_text(encoding="utf-8")
    assert "Which keys each query may see" in chapter and "A square of cells." in chapter
    exercises = (small / "_book/chapters/exercises.html").read_text(encoding="utf-8")
    assert 'data-ledger="ex-kept"' in exercises
    check = subprocess.run(
        [".venv/bin/book", "stale"], cwd=small, capture_output=True, env=outer(), check=False
    )
    assert check.returncode == 0


def outer():
    """The environment of a shell that nobody has prepared: nothing of this test run's."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("_quarto.yml", "    - chapters/masking.qmd\n"),
        ("chapters/exercises.qmd", "## In code {#sec-exercises-code}\n"),
        ("chapters/masking.qmd", "from measured.masks import"),
        ("chapters/masking.qmd", "import numpy as np\n"),
    ],
)
def test_the_real_book_has_the_places_that_the_recipes_name(file, text):
    assert (ROOT / file).read_text(encoding="utf-8").count(text) == 1


def test_what_the_recipes_add_is_not_there_yet():
    added = [where for _, what, where, _ in steps() if what == "write"]
    assert added and not any((ROOT / name).exists() for name in added)
    for id in re.findall(r"^\[([\w-]+)\]$", TEXT, re.MULTILINE):
        assert f"[{id}]" not in (ROOT / "ledger.toml").read_text(encoding="utf-8")
