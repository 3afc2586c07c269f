"""Put the freezes of a build in their places, one build at a time, or none of them.

What succeeded of a build that failed is kept below `.book`, where the next build finds it.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bookbuild import freeze as freezing
from bookbuild import swap
from bookbuild.freeze import Frozen
from bookbuild.project import Project

WORK = ".book"  # caches and unfinished work; never committed, safe to delete


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A folder on the project's own file system, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="build-", dir=root / WORK))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One build at a time in a project; a second waits for the first to end."""
    work = root / WORK
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            import fcntl
        except ImportError:  # no such lock on this system: builds at once are on their own
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under the lock, whatever unfinished folder is here was left by a build that was killed.
        for left in [*work.glob("build-*"), *work.glob("put-*")]:
            shutil.rmtree(left, ignore_errors=True)
        yield


def put_freezes(project: Project, frozen: Mapping[str, Frozen]) -> None:
    """Replace the freezes of these chapters, by path; a failure while they are written leaves all.

    Removes what was kept of earlier builds, and the freezes of chapters that are no more.
    """
    with alone(project.root), scratch_folder(project.root) as scratch:
        replace_freezes(project, frozen, scratch)
        shutil.rmtree(project.root / WORK / "kept", ignore_errors=True)


def replace_freezes(project: Project, frozen: Mapping[str, Frozen], scratch: Path) -> None:
    """The same for a caller that is alone in the project and has a folder for unfinished work."""
    staged = {scratch / "freeze" / path.removesuffix(".qmd"): path for path in frozen}
    for staging, path in staged.items():  # all of them, before the first is replaced
        write_freeze(frozen[path], staging)
    for staging, path in staged.items():
        swap.put(staging, project.root / freezing.folder_of(path))
    _remove_leftovers(project)


def kept_folder(root: Path, path: str) -> Path:
    """Where the freeze of a chapter is kept until a build succeeds."""
    return root / WORK / "kept" / path.removesuffix(".qmd")


def write_freeze(frozen: Frozen, folder: Path) -> None:
    """Write all files of a freeze below `folder`."""
    for name, content in frozen.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def keep_freeze(root: Path, frozen: Frozen, place: Path) -> None:
    """Put a freeze in a place below `.book`, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="put-", dir=root / WORK) as folder:
        staging = Path(folder) / "freeze"
        write_freeze(frozen, staging)
        swap.put(staging, place)


def _remove_leftovers(project: Project) -> None:
    """Remove the freeze of a renamed or removed chapter: only folders with our own seal."""
    top = project.root / freezing.FREEZE
    current = {project.root / freezing.folder_of(chapter.path) for chapter in project.chapters}
    for inputs in sorted(top.glob(f"**/{freezing.RESULTS}/inputs.json")):
        folder = inputs.parents[1]
        if folder not in current and freezing.why_unusable(freezing.read(folder)) is None:
            shutil.rmtree(folder)
