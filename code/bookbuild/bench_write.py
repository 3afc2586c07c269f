"""Write a book made for measuring as what a tool reads. Only files that changed are written."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from bookbuild.bench_book import Cell, Page, Text

TITLE = "A book to build"
# Of all kernels, whatever starts them.
VARIABLES = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
QUARTO = """\
project:
  type: book
  output-dir: _book

book:
  title: "{title}"
  chapters:
{chapters}

execute:
  freeze: auto

format:
  html:
    fig-format: svg
    toc: true
"""
JUPYTER_BOOK = """\
title: {title}
execute:
  execute_notebooks: cache
  timeout: 600
only_build_toc_files: true
"""
MYST = """\
version: 1
project:
  title: {title}
  toc:
{chapters}
site:
  template: book-theme
"""
HEAD = """\
---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---
"""


def write(path: Path, text: str) -> None:
    """Write a file, unless it says that already: its time is what some tools go by."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _listed(names: Iterable[str], indent: int, before: str = "") -> str:
    return "\n".join(f"{' ' * indent}- {before}{name}" for name in names)


# Quarto Markdown.


def write_quarto(pages: Sequence[Page], folder: Path) -> None:
    """What `book` and Quarto build."""
    paths = [f"{page.name}.qmd" for page in pages]
    write(folder / "_quarto.yml", QUARTO.format(title=TITLE, chapters=_listed(paths, 4)))
    write(
        folder / "_environment", "PYTHONHASHSEED=0\nSOURCE_DATE_EPOCH=0\nTF_CPP_MIN_LOG_LEVEL=3\n"
    )
    for page, path in zip(pages, paths, strict=True):
        write(folder / path, quarto_page(page))


def quarto_page(page: Page) -> str:
    heading = "# Preface {.unnumbered}" if not page.cells else f"# {page.title}"
    parts = [heading]
    for piece in page.pieces:
        if isinstance(piece, Text):
            parts.append(_linked(piece, ".qmd"))
            continue
        options = [f"label: {piece.label}"]
        if piece.caption:
            options += [f'fig-cap: "{piece.caption}"', f'fig-alt: "A line: {piece.caption}"']
        lines = "\n".join(f"#| {option}" for option in options)
        parts.append(f"```{{python}}\n{lines}\n{piece.code}\n```")
    return "\n\n".join(parts) + "\n"


def _linked(text: Text, ending: str) -> str:
    if not text.link:
        return text.markdown
    return text.markdown.replace("{page}", f"[{text.link}]({text.link}{ending})")


# MyST Markdown.


def write_jupyter_book(pages: Sequence[Page], folder: Path) -> None:
    """What Jupyter Book 1 builds, which is Sphinx with MyST-NB."""
    write(folder / "_config.yml", JUPYTER_BOOK.format(title=TITLE))
    files = _listed([page.name for page in pages[1:]], 0, "file: ")
    write(folder / "_toc.yml", f"format: jb-book\nroot: index\nchapters:\n{files}\n")
    _write_myst_pages(pages, folder)


def write_myst(pages: Sequence[Page], folder: Path) -> None:
    """What the MyST command builds, which Jupyter Book 2 is."""
    files = _listed([f"{page.name}.md" for page in pages], 4, "file: ")
    write(folder / "myst.yml", MYST.format(title=TITLE, chapters=files))
    _write_myst_pages(pages, folder)


def _write_myst_pages(pages: Sequence[Page], folder: Path) -> None:
    for page in pages:
        write(folder / f"{page.name}.md", myst_page(page))


def myst_page(page: Page) -> str:
    parts = [f"# {page.title}"]
    for piece in page.pieces:
        if isinstance(piece, Text):
            parts.append(_linked(piece, ".md"))
        else:
            parts.append(f"```{{code-cell}} python3\n{piece.code}\n```")
            parts += [piece.caption] if piece.caption else []
    return (HEAD if page.cells else "") + "\n\n".join(parts) + "\n"


# Notebooks.


def write_notebooks(pages: Sequence[Page], folder: Path) -> None:
    for page in pages:
        write(folder / f"{page.name}.ipynb", notebook_page(page))


def notebook_page(page: Page) -> str:
    """A page as nbformat 4.5; texts between two cells are one cell, as a person would have them."""
    cells = [_markdown_cell("title", f"# {page.title}")]
    for number, piece in enumerate(page.pieces):
        if isinstance(piece, Cell):
            cells.append(_code_cell(piece))
            if piece.caption:
                cells.append(_markdown_cell(f"caption-{number}", piece.caption))
        elif cells[-1]["cell_type"] == "markdown":
            cells[-1]["source"] += "\n\n" + _linked(piece, ".ipynb")
        else:
            cells.append(_markdown_cell(f"text-{number}", _linked(piece, ".ipynb")))
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def _markdown_cell(name: str, text: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def _code_cell(cell: Cell) -> dict:
    return {
        "cell_type": "code", "execution_count": None, "id": f"cell-{cell.label}", "metadata": {},
        "outputs": [], "source": cell.code,
    }  # fmt: skip
