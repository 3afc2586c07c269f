"""The backends of Keras that the book is not made with, and a Python for each.

Such a Python has the backend from a lock of its own, and all else from the environment that the
book is made with: the same files, so that nothing but the backend is another one.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bookbuild.placing import WORK
from bookbuild.problems import BookError, Problem
from bookbuild.watch import interpreter, places, versions
from ledger.inputs import LOCK, locked_versions


@dataclass(frozen=True)
class Backend:
    """One backend of Keras.

    Args:
        name: its name in Keras.
        title: its name in sentences.
        libraries: those that compute.
        variables: its own settings.
        first: modules of this package that its kernels import before a chapter.
    """

    name: str
    title: str
    libraries: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()

    @property
    def lock(self) -> Path:
        return Path(__file__).with_name(f"backends-{self.name}.lock")


BACKENDS = {
    backend.name: backend
    for backend in (
        # Unless told, JAX turns into float32 what chapters compute in float64.
        Backend("jax", "JAX", ("jax", "jaxlib"), {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}),
        Backend("torch", "PyTorch", ("torch",), first=("backend_torch",)),
    )
}


def python_for(
    root: Path, backend: Backend, told: Callable[[str], None], base: str = sys.executable
) -> str:
    """The interpreter of a backend's environment, which is made anew if its lock has changed.

    Args:
        told: hears a line where it is made.
        base: interpreter of the environment that the book is made with.
    """
    folder = root / WORK / "backends" / backend.name
    python = folder / "bin" / "python"
    note = folder / "made-from.json"
    made_from = [backend.lock.read_text(encoding="utf-8"), (root / LOCK).read_text("utf-8"), base]
    if not note.is_file() or json.loads(note.read_text(encoding="utf-8")) != made_from:
        told(f"{backend.title}: making {folder.relative_to(root)} from {backend.lock.name}")
        shutil.rmtree(folder, ignore_errors=True)
        interpreter(folder, places(base), base)
        _install(backend, python, base)
        _compare(root, backend, str(python))
        note.write_text(json.dumps(made_from), encoding="utf-8")
    return str(python)


def _install(backend: Backend, python: Path, base: str) -> None:
    """What the lock names; pip takes what is in the book's environment already as it is there."""
    command = [base, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    command += ["--require-hashes", "-r", str(backend.lock)]
    # The lock decides, and no constraint that holds for the user's other work.
    variables = {"PIP_CONSTRAINT": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        text = f"no environment could be made from it: {said[0]}"
        raise BookError(Problem(backend.lock.name, 0, text))


def _compare(root: Path, backend: Backend, python: str) -> None:
    """Refuse an environment in which anything but the backend is not what the book is locked to."""
    there = versions(python)
    other = [
        f"{name} is {there[name]}, not {' or '.join(sorted(locked))}"
        for name, locked in sorted(locked_versions(root).items())
        if name in there and there[name] not in locked
    ]
    if other:
        text = f"{backend.title} would run beside other libraries than the book: {', '.join(other)}"
        raise BookError(Problem(backend.lock.name, 0, f"{text}; run make lock, then make site"))
