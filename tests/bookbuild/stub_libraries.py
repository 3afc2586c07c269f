"""A book that computes with two libraries made here, and environments with any versions of them."""

import sys
from pathlib import Path

from bookbuild.watch import PLACES, _ask, interpreter

LEDGER = """\
[weight-norm]
statement = "Norm of three weights as the library initialises them"
value = 1.5
tolerance = 1e-6
reason = "float32"
format = ".4f"
source = "the library"

[mean]
statement = "Mean of five"
value = 3.0
tolerance = 1e-6
reason = "float32"
format = ".1f"
source = "arithmetic"

[pure]
statement = "Six times seven"
value = 42
tolerance = 0
reason = "a count"
format = "d"
source = "arithmetic"
"""


def chapter(title, setup, check):
    return (
        f'---\ntitle: "{title}"\n---\n\n```{{python}}\n#| label: setup\nfrom ledger import check\n'
        f"{setup}\n```\n\n```{{python}}\n#| label: number\n{check}\n```\n"
    )


CHAPTERS = {
    "chapters/layer.qmd": chapter(
        "A layer",
        "import stubkeras, stubnumpy",
        'check("weight-norm", stubnumpy.total(stubkeras.initialise(3)))',
    ),
    "chapters/mean.qmd": chapter(
        "A mean", "import stubnumpy", 'check("mean", stubnumpy.total([1, 2, 3, 4, 5]) / 5)'
    ),
    "chapters/pure.qmd": chapter("Pure", "", 'check("pure", 6 * 7)'),
}
KERAS = "def initialise(count):\n    return [{value}] * count\n"
NUMPY = "def total(values):\n    return {expression}\n"


def library(place: Path, name: str, version: str, code: str) -> None:
    """An installed package: a module, and the metadata that says which version it is."""
    package, info = place / name, place / f"{name}-{version}.dist-info"
    for folder in (package, info):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "top_level.txt").write_text(f"{name}\n")
    names = (f"{name}/__init__.py", *(f"{info.name}/{n}" for n in ("METADATA", "top_level.txt")))
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in (*names, f"{info.name}/RECORD")))


def environment(folder: Path, keras: tuple[str, str], numpy: tuple[str, str]) -> str:
    """An interpreter that has the two libraries of the stub book beside what runs kernels."""
    library(folder / "site", "stubkeras", keras[0], KERAS.format(value=keras[1]))
    library(folder / "site", "stubnumpy", numpy[0], NUMPY.format(expression=numpy[1]))
    places = [str(folder / "site"), *_ask(sys.executable, PLACES)]
    return interpreter(folder / "python", places, sys.executable)


OLD = ("3.15.1", "0.5"), ("2.4.0", "sum(values)")
NEW_KERAS, NEW_NUMPY = ("3.16.0", "0.75"), ("2.5.0", "sum(list(values))")
