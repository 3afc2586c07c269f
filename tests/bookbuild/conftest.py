"""Small books in temporary folders, and one execution of such a book that many tests share."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from bookbuild.build import Report, build
from bookbuild.project import load_project

CONFIG = """\
project:
  type: book
book:
  title: "A small book"
  chapters:
{chapters}
execute:
  freeze: auto
"""

LEDGER = """\
# The numbers of a small book.

[twice]
statement = "Twice 21"
value = 42
tolerance = 0
reason = "a count"
format = "d"
source = "arithmetic"

[half]  # of one
statement = "Half of one"
value = 0.5
tolerance = 1e-6
reason = "float32"
format = ".4f"
source = "arithmetic"
"""

ONE = """\
---
title: "One"
---

Before the cells.

```{python}
#| label: setup
from ledger import check, say
from measured.doubles import twice
```

Between them.

```{python}
#| label: count
number = check("twice", twice(21))
print("the number is", number)
```

It is `{python} say("twice")`, and `{python} say("twice")` again; `{python} 6 * 7` too.
"""

TWO = """\
---
title: "Two"
---

```{python}
#| label: setup
from pathlib import Path

from ledger import check, say
import measured.halves
```

```{python}
#| label: half
check("half", float(Path("../media/data/half.txt").read_text()))
```

Half is `{python} say("half")`, elsewhere it was `{python} say("twice")`.

The end.
"""

CHAPTERS = {
    "index.qmd": "# Preface {.unnumbered}\n\nHello.\n",
    "chapters/one.qmd": ONE,
    "chapters/two.qmd": TWO,
}
FILES = {
    "code/measured/__init__.py": "",
    "code/measured/doubles.py": "def twice(x):\n    return 2 * x\n",
    "code/measured/halves.py": "HALF = 0.5\n",
    "code/measured/never.py": "raise ImportError\n",
    "media/data/half.txt": "0.5\n",
    "_environment": "PYTHONHASHSEED=0\n",
}


def cell(code: str, label: str = "only", *options: str) -> str:
    """A code cell; each option as `key: value`."""
    lines = [f"label: {label}", *options]
    return "\n".join(["```{python}", *(f"#| {line}" for line in lines), code, "```", ""])


def chapter(*pieces: str) -> str:
    return "\n".join(['---\ntitle: "A chapter"\n---\n', *pieces])


def write_book(
    root: Path,
    chapters: Mapping[str, str] = CHAPTERS,
    ledger: str | None = LEDGER,
    files: Mapping[str, str] = FILES,
) -> Path:
    """A book's sources in `root`, nothing built."""
    listed = "\n".join(f'    - "{path}"' for path in chapters)
    texts = {"_quarto.yml": CONFIG.format(chapters=listed), **chapters, **files}
    if ledger is not None:
        texts["ledger.toml"] = ledger
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def bring_up_to_date(root: Path, **options) -> Report:
    """A build that renders nothing."""
    return build(load_project(root), **{"jobs": 2, "timeout": 60, "render": False, **options})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def edit(path: Path, old: str, new: str) -> None:
    """Replace the one place where `old` stands."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def kernels_of(root: Path) -> list[int]:
    """Processes of kernels that work in the book at `root`."""
    mark = f"QUARTO_PROJECT_ROOT={root}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in environment:
                found.append(int(process.name))
    return found


@pytest.fixture(scope="session")
def books() -> SimpleNamespace:
    """The helpers of this file."""
    return SimpleNamespace(
        cell=cell,
        chapter=chapter,
        write=write_book,
        bring_up_to_date=bring_up_to_date,
        contents=contents,
        edit=edit,
        kernels_of=kernels_of,
        chapters=CHAPTERS,
        files=FILES,
        ledger=LEDGER,
    )


@pytest.fixture(scope="session")
def executed_once(tmp_path_factory) -> Path:
    """The small book, executed. Nobody may change it: see `executed`."""
    root = write_book(tmp_path_factory.mktemp("executed") / "book")
    report = bring_up_to_date(root)
    assert report.ran == ("chapters/one.qmd", "chapters/two.qmd")
    return root


@pytest.fixture
def executed(executed_once, tmp_path) -> Path:
    """A copy of the executed small book: a freeze does not know in which folder it lies."""
    return Path(shutil.copytree(executed_once, tmp_path / "book"))


@pytest.fixture
def site(monkeypatch) -> Iterator[Callable[[], int]]:
    """Builds write each chapter's Markdown as its page; the fixture counts such renderings."""
    calls = []

    def render(plan, frozen, scratch, jobs):
        from bookbuild.build import markdown_of

        calls.append(1)
        folder = scratch / "site"
        folder.mkdir()
        pages = markdown_of(plan, frozen)
        for path, text in pages.items():
            page = folder / Path(path).with_suffix(".html")
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        return SimpleNamespace(rendered=tuple(pages))

    monkeypatch.setattr("bookbuild.build._render", render)
    yield lambda: len(calls)
