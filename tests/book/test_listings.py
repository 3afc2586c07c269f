"""A reader copies a chapter's listings into a notebook elsewhere: it prints what the book prints.

The package is installed as one line would install it, from a wheel; the notebook's folder is
outside the book's, and nothing tells the kernel where the book is. The kernels are forked from one
process, which has imported Keras for them and nothing of the book; `test_export_whole` runs two
notebooks in kernels of their own.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

from bookbuild import freeze
from bookbuild.project import load_project
from bookbuild.source import Cell, Source, parse
from bookbuild.warm import Nurseries, Nursery
from bookbuild.warm_kernel import forked_from
from ledger.inputs import LOCK

ROOT = Path(__file__).parents[2]
# Cells of more than three seconds. Those that use what they make are left out with them.
TOO_LONG = {
    "attention": {"variance", "query-gradient"},
    "positional-encoding": {"follow-ratio"},
    "encoder-decoder": {
        "gradients",
        "leak-runs",
        "leak-training",
        "train",
        "with-and-without-cache",
    },
    "bert": {"train"},
    "classifier": {
        "bundle",
        "mean-folds",
        "one-run",
        "spread-of-words",
        "tfidf-folds",
        "transformer-all",
        "transformer-by-passage",
        "transformer-by-play",
    },
}
BOOKS_OWN = {"PYTHONPATH", "PYTHONHASHSEED", "SOURCE_DATE_EPOCH", "GLOVE_PATH", "KERAS_BACKEND"}
OPENING = re.compile(r"^::: \{#(?:cell-)?(?P<label>[a-z0-9-]+) \.cell[ }]", re.MULTILINE)
PRINTED = re.compile(
    r"^::: \{(?:#\S+ )?\.cell-output (?P<kind>\.cell-output-(?:stdout|display))[^}\n]*\}\n"
    r"(?P<fence>`{3,})\n(?P<text>.*?)\n?(?P=fence)\n:::$",
    re.MULTILINE | re.DOTALL,
)


def chapters() -> Iterator[Source]:
    project = load_project(ROOT)
    for chapter in project.chapters:
        source = parse(chapter.path, project.source(chapter))
        if source.executable:
            yield source


def listings(source: Source) -> list[Cell]:
    """The cells that a reader sees and can copy."""
    return [cell for cell in source.cells if cell.options.get("echo") is not False]


def without(cells: Sequence[Cell], labels: Collection[str]) -> list[Cell]:
    """The cells but those named, and but those that load a name which only left-out cells make."""
    kept, missing = [], set()
    for cell in cells:
        nodes = list(ast.walk(ast.parse(cell.code)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        if cell.label in labels or used & (missing - made):
            missing |= made
        else:
            kept.append(cell)
            missing -= made
    return kept


def frozen_prints(markdown: str) -> dict[str, list[str]]:
    """What each cell of a frozen chapter printed or returned as text: label -> texts."""
    openings = list(OPENING.finditer(markdown))
    ends = [opening.start() for opening in openings[1:]] + [len(markdown)]
    return {
        opening["label"]: [
            found["text"] for found in PRINTED.finditer(markdown, opening.end(), end)
        ]
        for opening, end in zip(openings, ends, strict=True)
    }


def prints(outputs: Sequence) -> list[str]:
    """The same of a notebook's cell: standard output first, then what is returned."""
    streams = [out.text for out in outputs if out.output_type == "stream" and out.name == "stdout"]
    returned = [
        out.data["text/plain"]
        for out in outputs
        if out.output_type == "execute_result" and "text/markdown" not in out.data
    ]
    texts = ["".join(streams)] if streams else []
    texts += [text for text in returned if not text.startswith(("<matplotlib", "[<matplotlib"))]
    return [text.removesuffix("\n") for text in texts]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, unpacked: what `pip install` of the project puts into site-packages."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "code")
    return folder / "code"


def elsewhere(installed: Path) -> dict[str, str]:
    """Variables of a kernel that knows the wheel and nothing of the book."""
    named = (*BOOKS_OWN, *(name for name in os.environ if name.startswith("QUARTO")))
    environment = {key: value for key, value in os.environ.items() if key not in named}
    return environment | {"PYTHONPATH": str(installed)}


@pytest.fixture(scope="module")
def nurseries(installed) -> Iterator[Mapping[str, Nursery]]:
    """Path of a chapter -> the process that its kernel is forked from."""
    shutil.copy(ROOT / LOCK, installed.parent)
    with Nurseries() as started:
        yield started.of(installed.parent, list(chapters()), elsewhere(installed))


def run_notebook(
    cells: Sequence[Cell], folder: Path, installed: Path, nursery: Nursery | None
) -> dict[str, list[str]]:
    """Run cells in a fresh kernel in `folder`: label -> what it printed."""
    where = "import ledger, measured; print(ledger.__file__, measured.__file__)"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in (where, *(cell.code for cell in cells))]
    )

    class Manager(AsyncKernelManager):
        def __init__(self, **given):
            super().__init__(**given)
            if nursery:
                forked_from(nursery, self)

    client = NotebookClient(
        notebook,
        kernel_manager_class=Manager,
        kernel_name="python3",
        timeout=300,
        resources={"metadata": {"path": str(folder)}},
        raise_on_iopub_timeout=True,
        iopub_timeout=60,
    )
    with (folder / "kernel.log").open("wb") as log:
        client.execute(env=elsewhere(installed), stdout=log, stderr=log)
    imported, *results = [cell.outputs for cell in notebook.cells]
    assert str(ROOT) not in prints(imported)[0], "the book's own folder was imported, not the wheel"
    return {cell.label: prints(out) for cell, out in zip(cells, results, strict=True)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", list(chapters()), ids=lambda source: Path(source.path).stem)
def test_listings_print_elsewhere_what_the_book_prints(source, installed, nurseries, tmp_path):
    frozen = freeze.read(ROOT / freeze.folder_of(source.path))
    assert freeze.why_unusable(frozen) is None, f"{source.path}: run `book execute` first"
    expected = frozen_prints(frozen.markdown)
    cells = without(listings(source), TOO_LONG.get(Path(source.path).stem, ()))
    told = run_notebook(cells, tmp_path, installed, nurseries.get(source.path))
    shown = [cell.label for cell in cells if cell.options.get("output") is not False]
    # A cell that checks a number compares it by itself: outside its tolerance it raises.
    checks = any("check(" in cell.code for cell in cells)
    assert not shown or checks or sum(len(expected[label]) for label in shown), "nothing compared"
    assert {label: told[label] for label in shown} == {label: expected[label] for label in shown}


def test_a_cell_goes_with_the_cells_whose_names_it_needs():
    text = "\n\n".join(
        f"```{{python}}\n#| label: {label}\n{code}\n```"
        for label, code in {
            "long": "run = 1\n\n\ndef once():\n    return 1",
            "calls": "print(once())",
            "uses": "shares = run + 1",
            "apart": "other = 2",
            "uses-that": "print(shares, other)",
            "makes-it-anew": "run = 3\nprint(run)",
            "uses-the-new": "print(run)",
        }.items()
    )
    left = without(parse("some.qmd", text).cells, {"long"})
    assert [cell.label for cell in left] == ["apart", "makes-it-anew", "uses-the-new"]


def test_what_a_frozen_cell_printed_is_read_back():
    markdown = (
        "::: {#cell-one .cell execution_count=1}\n``` {.python .cell-code}\nprint(1)\n```\n\n"
        "::: {.cell-output .cell-output-stdout}\n```\n1\n\n2\n```\n:::\n\n"
        "::: {#one .cell-output .cell-output-display execution_count=1}\n```\n[0.0]\n```\n:::\n"
        ":::\n\n::: {#two .cell execution_count=2}\n``` {.python .cell-code}\nx = 1\n```\n:::\n"
    )
    assert frozen_prints(markdown) == {"one": ["1\n\n2", "[0.0]"], "two": []}
