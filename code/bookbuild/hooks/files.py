"""Change a freeze on disk. Quarto reads html.json alone: it is written last, and taken away first.

Whoever is stopped in the middle leaves files that do not belong together, which nobody trusts.
"""

import os
import shutil
from pathlib import Path

from bookbuild.freeze import FIGURES, RESULTS, Frozen

HTML = f"{RESULTS}/html.json"


def replace(folder: Path, frozen: Frozen) -> None:
    """Make the freeze in `folder` the one given; files that are the same stay untouched."""
    for place in (folder, folder / RESULTS, folder / FIGURES):
        if place.is_symlink():
            place.unlink()
    for name in (*(name for name in frozen.files if name != HTML), HTML):
        _write(folder / name, frozen.files[name])
    for path in (folder / FIGURES).glob("*"):
        if path.relative_to(folder).as_posix() not in frozen.files:
            _remove(path)


def drop(folder: Path) -> None:
    """Take from a freeze what Quarto would show: it executes the chapter instead.

    The records stay: a number that drifts then is reported with what has changed since.
    """
    for path in (folder / HTML, folder / FIGURES):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return
    if path.is_dir():
        _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
