"""Chapters as notebooks that run by themselves: outside the project, after one install line.

A notebook's first cell installs this project's package, which brings the ledger and the data along;
the second sets what the book's own kernels have set. Cells are those of the chapter's source, also
those that its page does not show, because later ones need them.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookbuild.export_page import Page
from bookbuild.freeze import RESULTS
from bookbuild.kept import code_digest, digest
from bookbuild.pages import find_line
from bookbuild.problems import Problem
from bookbuild.project import Project
from bookbuild.source import Cell, parse

FOLDER = "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# What `_environment` and bookbuild.kernel set for a chapter, as far as a running kernel still can.
SETTINGS = """\
import os
import re

from IPython import get_ipython
from IPython.display import Markdown

{variables}
shell = get_ipython()
shell.config.InlineBackend.figure_formats = {{"svg"}}
shell.config.InlineBackend.rc = {{"figure.figsize": ({width:g}, {height:g}), "figure.dpi": {dpi:g}}}
# The book's pages have divs, which Jupyter would print: leave them out of what cells show.
shell.display_formatter.formatters["text/markdown"].for_type(
    Markdown, lambda shown: re.sub(r"(?m)^:{{3,}}.*\\n?", "", shown.data)
)"""
NEEDED_BEFORE_START = {"PYTHONHASHSEED"}  # too late once Python runs


@dataclass(frozen=True)
class Package:
    """What the first cell installs: the name, the version, and the extras by what they bring."""

    name: str
    version: str
    extras: Mapping[str, Sequence[str]]

    @property
    def wheel(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"


def package_of(project: Project) -> Package | None:
    """The package of the project, or None where it has none and its cells run without."""
    path = project.root / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        described = tomllib.loads(path.read_text(encoding="utf-8")).get("project") or {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None  # what installs the project says so
    if "name" not in described or "version" not in described:
        return None
    extras = {
        extra: [re.split(r"[\s\[<>=!~;@]", one, maxsplit=1)[0].lower() for one in listed]
        for extra, listed in (described.get("optional-dependencies") or {}).items()
    }
    return Package(described["name"], described["version"], extras)


def install_line(project: Project, package: Package, libraries: Sequence[str]) -> str:
    """The one line. A published site serves the wheel that its numbers were computed with.

    Without an address of the site the repository is the source; without that the wheel is expected
    where the site has it, beside the notebook.

    Args:
        libraries: what the chapter's kernel imported; it names the extras that are needed.
    """
    # Only extras of one library each: those of the build and the tests bring what nobody imports.
    needed = [
        extra
        for extra, brought in sorted(package.extras.items())
        if extra not in ("build", "test") and any(name in libraries for name in brought)
    ]
    extra = f"[{','.join(needed)}]" if needed else ""
    if project.site_url:
        address = f"{project.site_url}{FOLDER}/{package.wheel}"
        return f'%pip install -q "{package.name}{extra} @ {address}"'
    if project.repo_url:
        return f'%pip install -q "{package.name}{extra} @ git+{project.repo_url}"'
    return f'%pip install -q "./{package.wheel}{extra}"'


def notebook(
    project: Project, page: Page, figures: Path | None, freeze: Path, *, outputs: bool
) -> tuple[dict[str, Any], list[Problem]]:
    """A chapter as nbformat 4.5, and what is missing for it.

    Args:
        figures: folder with the chapter's frozen figures.
        outputs: with what the frozen run gave, or clean.
    """
    source = parse(page.chapter.path, project.source(page.chapter))
    problems: list[Problem] = []
    cells = [*_head(project, page, freeze)]
    left = list(source.cells)
    count = 0

    def code(cell: Cell, shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        nonlocal count
        count += 1
        made = _code_cell(cell.label, cell.code, count if outputs else None)
        if outputs:
            for item in shown:
                output = _output(item, figures)
                if output is None:
                    line = find_line(source.text, f"#| label: {cell.label}")
                    text = f"the figure {item['src']} is not frozen; execute the chapter again"
                    problems.append(Problem(source.path, line, text))
                else:
                    made["outputs"].append(output)
        return made

    for number, item in enumerate(page.cells):
        if item["type"] == "markdown":
            cells.append(_markdown_cell(f"text-{number}", item["source"]))
            continue
        while left and left[0].label != item["label"]:  # a cell that the page does not show
            cells.append(code(left.pop(0), ()))
        if left:
            cells.append(code(left.pop(0), item["outputs"]))
    cells += [code(cell, ()) for cell in left]
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return whole, problems


def made_for_all(project: Project) -> str:
    """Hash of what the notebooks of all chapters are made from, and of the code that does it."""
    here = Path(__file__)
    named = (project.title, project.site_url, project.repo_url, sorted(project.html.items()))
    return digest(
        code_digest([here, here.with_name("source.py")]),
        repr((named, package_of(project), list(_variables(project.root)))),
    )


def made_from(
    project: Project, page: Page, figures: Path | None, freeze: Path, outputs: bool
) -> Iterator[str | bytes]:
    """What one chapter's notebook is made from besides."""
    yield page.chapter.href
    yield project.source(page.chapter)
    yield json.dumps(page.cells, ensure_ascii=False)
    yield repr(_libraries(page, freeze))
    if outputs and figures and figures.is_dir():
        for path in sorted(figures.iterdir()):
            yield path.name
            yield path.read_bytes()


def as_text(whole: Mapping[str, Any]) -> str:
    """As Jupyter writes it, so that opening and saving changes nothing."""
    return json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _head(project: Project, page: Page, freeze: Path) -> Iterator[dict[str, Any]]:
    """Where this comes from, the one install line, and the settings of the book's kernels."""
    address = f"{project.site_url}{page.chapter.href}" if project.site_url else ""
    name = f"[{project.title}]({address})" if address else f"*{project.title}*"
    yield _markdown_cell(
        "about",
        f"This notebook is a chapter of {name}. It runs by itself: the first cell installs the "
        "package with the code, the expected numbers and the data; `check` compares every number "
        "with what it must be, and raises where one drifts.",
    )
    package = package_of(project)
    if package:
        line = install_line(project, package, _libraries(page, freeze))
        yield _code_cell("install", line, None)
    drawn = {"fig-width": 7, "fig-height": 5, "fig-dpi": 96} | dict(project.html)
    yield _code_cell(
        "settings",
        SETTINGS.format(
            variables="\n".join(_variables(project.root)),
            width=drawn["fig-width"],
            height=drawn["fig-height"],
            dpi=drawn["fig-dpi"],
        ),
        None,
    )


def _variables(root: Path) -> Iterator[str]:
    path = root / "_environment"
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        key, equals, value = line.partition("=")
        name, text = key.strip(), value.strip().strip('"')
        if equals and not name.startswith("#") and name not in NEEDED_BEFORE_START:
            yield f"os.environ[{json.dumps(name)}] = {json.dumps(text)}"


def _libraries(page: Page, freeze: Path) -> list[str]:
    path = freeze / page.chapter.path.removesuffix(".qmd") / RESULTS / "inputs.json"
    try:
        return sorted(json.loads(path.read_text(encoding="utf-8"))["libraries"])
    except (OSError, ValueError, KeyError):
        return []  # a page that was never executed


def _id(name: str) -> str:
    """nbformat takes 64 letters, digits, - and _."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "-", name)
    return plain if len(plain) <= 64 else hashlib.sha256(name.encode()).hexdigest()[:32]


def _markdown_cell(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(source)}


def _code_cell(name: str, source: str, count: int | None) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": count,
        "id": _id(f"cell-{name}"),
        "metadata": {},
        "outputs": [],
        "source": _lines(source),
    }


def _output(item: Mapping[str, Any], figures: Path | None) -> dict[str, Any] | None:
    """One of the outputs that copies.lua found, as Jupyter has it; None without its figure."""
    kind = item["kind"]
    if kind in ("stdout", "stderr"):
        return {"name": kind, "output_type": "stream", "text": _lines(item["text"] + "\n")}
    if kind == "error":
        name, _, value = item["text"].partition(": ")
        return {"ename": name, "evalue": value, "output_type": "error", "traceback": [item["text"]]}
    if kind == "image":
        file = figures / Path(item["src"]).name if figures else None
        if file is None or not file.is_file():
            return None
        data = _image(file) | {"text/plain": _lines(item["text"] or "figure")}
    elif kind == "markdown":
        text = item["text"]
        data = {"text/markdown": _lines(text), "text/plain": _lines(text)}
    else:
        data = {"text/plain": _lines(item["text"])}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def _image(file: Path) -> dict[str, Any]:
    if file.suffix == ".svg":
        return {"image/svg+xml": _lines(file.read_text(encoding="utf-8"))}
    from base64 import b64encode

    return {"image/png": b64encode(file.read_bytes()).decode()}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
