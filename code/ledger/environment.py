"""What numbers may depend on besides code, data and libraries: Python, processor, threads, BLAS."""

import os
import platform
import sys
from pathlib import Path


def environment() -> dict:
    """What numbers may depend on besides libraries. No name, path or time."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _cpu_features(),
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "blas": _blas(),
    }


def _cpu_features() -> list[str]:
    """The instruction sets that numerical kernels choose by."""
    wanted = ("sse4_1", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile")
    try:
        flags = set(
            Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
        )
    except OSError:
        return []
    return [flag for flag in wanted if flag in flags]


def _blas() -> list[str]:
    if "threadpoolctl" not in sys.modules and "numpy" not in sys.modules:
        return []
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return sorted(
        f"{pool['internal_api']} {pool.get('version')} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
