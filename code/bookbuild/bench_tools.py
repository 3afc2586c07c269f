"""The tools that are measured: what each reads, how it is called, where it puts a page.

The peers have an environment of their own, `.book/bench/peers`, made from `bench-peers.lock` with
hashes. It has the same Keras, TensorFlow, NumPy, Matplotlib and scikit-learn (which Keras imports
wherever it finds it) as the book's own: what is measured is the tools and not their libraries.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bookbuild.bench_book import Page
from bookbuild.bench_write import VARIABLES, write_jupyter_book, write_notebooks, write_quarto
from bookbuild.problems import BookError, Problem

LOCK = Path(__file__).with_name("bench-peers.lock")
SAME = (
    "keras", "tensorflow-cpu", "tensorflow", "numpy", "matplotlib", "scikit-learn", "scipy",
    "ipykernel",
)  # fmt: skip
COLD, NOTHING, WORD, CELL = MEASURES = ("cold", "nothing changed", "one word", "one cell")
# Variables of the person who measures that would change what is measured.
DROPPED = re.compile(r"PYTHON(?!HASHSEED)|JUPYTER|IPYTHON|QUARTO|MPL|KERAS|VIRTUAL_ENV")
Commands = list[list[str]]


@dataclass(frozen=True)
class Tool:
    """A tool and how it is called. `commands` are run at the same time.

    measures: what of MEASURES it can do. A tool without a cache has no build in which nothing
    changed: who calls it has decided that something has.
    """

    name: str
    version: str
    write: Callable[[Sequence[Page], Path], None]
    commands: Callable[[Sequence[str], bool], Commands]  # names of pages, whether all -> commands
    page: str  # path of a built page, with {name}
    measures: tuple[str, ...] = MEASURES


def our_tool(root: Path, jobs: int) -> Tool:
    command = [sys.executable, "-m", "bookbuild", "build", "--jobs", str(jobs)]

    def write(pages: Sequence[Page], folder: Path) -> None:
        write_quarto(pages, folder)
        shutil.copyfile(root / "requirements.lock", folder / "requirements.lock")

    return Tool("book", "this build", write, lambda names, all: [command], "_book/{name}.html")


def quarto() -> Tool | None:
    """Quarto, where it is on PATH."""
    program = shutil.which("quarto")
    if not program:
        return None
    version = _said([program, "--version"])
    command = [program, "render"]
    return Tool("Quarto", version, write_quarto, lambda names, all: [command], "_book/{name}.html")


def jupyter_book(peers: Path) -> Tool:
    command = [str(peers / "bin" / "jupyter-book"), "build", "--quiet", "."]
    version = version_of("jupyter-book")
    page = "_build/html/{name}.html"
    return Tool("Jupyter Book", version, write_jupyter_book, lambda names, all: [command], page)


def nbconvert(peers: Path, jobs: int) -> Tool:
    """As many processes at once as there are jobs, each with its share of the notebooks."""
    program = str(peers / "bin" / "jupyter-nbconvert")
    start = [program, "--to", "html", "--execute", "--log-level=40"]

    def commands(names: Sequence[str], all: bool) -> Commands:
        shares = [names[number::jobs] for number in range(jobs)]
        return [[*start, *(f"{name}.ipynb" for name in share)] for share in shares if share]

    version = version_of("nbconvert")
    can = (COLD, WORD, CELL)
    return Tool("nbconvert", version, write_notebooks, commands, "{name}.html", can)


def tools(root: Path, work: Path, jobs: int, say: Callable[[str], None]) -> list[Tool]:
    """All tools that can be measured here; of the others it is said why not."""
    peers = peers_environment(root, work, say)
    found = [our_tool(root, jobs), quarto(), jupyter_book(peers), nbconvert(peers, jobs)]
    if found[1] is None:
        say("Quarto is not on PATH: it is left out")
    return [tool for tool in found if tool]


# The peers' environment.


def peers_environment(root: Path, work: Path, say: Callable[[str], None]) -> Path:
    """The peers' environment, made if it is not there or the lock has changed."""
    check_same(root)
    folder = work / "peers"
    made_from = folder / "made-from.lock"
    if made_from.is_file() and made_from.read_bytes() == LOCK.read_bytes():
        return folder
    say("making the peers' environment: some minutes and 2.5 GB, once")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check",
         "install", "--no-deps", "--require-hashes", "-r", str(LOCK)],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            shutil.rmtree(folder, ignore_errors=True)
            raise BookError(Problem(LOCK.name, 0, f"cannot be installed: {said}"))
    shutil.copyfile(LOCK, made_from)
    return folder


def check_same(root: Path) -> None:
    """Raise BookError where the peers would compute with other libraries than the book."""
    ours, theirs = pins((root / "requirements.lock").read_text("utf-8")), pins(_lock())
    for name in SAME:
        if ours.get(name) != theirs.get(name):
            text = (
                f"has {name} {theirs.get(name)}, the book's lock has {ours.get(name)}: lock anew, "
                "sh code/bookbuild/lock.sh"
            )
            raise BookError(Problem(LOCK.name, 0, text))


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE))


def version_of(name: str) -> str:
    return pins(_lock())[name]


def _lock() -> str:
    return LOCK.read_text(encoding="utf-8")


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def environment_of(tool: Tool, folder: Path, outer: Mapping[str, str] = os.environ) -> dict:
    """Variables of a tool: nothing of the person's own settings, and the same for all tools."""
    kept = {name: value for name, value in outer.items() if not DROPPED.match(name)}
    if tool.name == "book":
        kept["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    elif tool.name == "Quarto":
        kept["QUARTO_PYTHON"] = sys.executable
    home = folder.parent / f"{folder.name}-home"
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        kept[name] = str(home / name.lower())
    return {**kept, **VARIABLES}
