"""The variables that a chapter's kernel is started with."""

import os
from collections.abc import Mapping
from pathlib import Path

# Threads of numerical libraries: TensorFlow's, OpenMP's (PyTorch among them), OpenBLAS's.
THREADS = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


def share_of_cores(jobs: int) -> dict[str, str]:
    """Variables that give each of `jobs` processes its share of the cores.

    More threads than cores wait for each other: small models then train many times slower.
    """
    return dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // jobs)))


def kernel_environment(root: Path, outer: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a kernel: the caller's, and those of the project's `_environment` file.

    The file's values win over the caller's, so that a stray PYTHONHASHSEED changes no number;
    variables of Python itself that would bring in other code are dropped.
    """
    variables = {
        key: value
        for key, value in outer.items()
        if key not in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "MATPLOTLIBRC")
    }
    path = root / "_environment"
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, equals, value = line.partition("=")
            if equals and not key.lstrip().startswith("#"):
                variables[key.strip()] = value.strip().strip('"')
    return variables
