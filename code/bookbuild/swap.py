"""Put a finished folder or file in the place of an old one: nobody ever sees half of it."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

AT_FDCWD = -100 if sys.platform == "linux" else -2
SWAP = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS


def put(new: Path, place: Path) -> None:
    """Move folder `new` to `place`; what was there is removed afterwards.

    Both must be on one file system. Where the system can exchange two names in one step, `place`
    is never missing; elsewhere it is for the moment between two renames, and `recover` mends what
    a crash in that moment leaves.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    recover(place)
    old = _aside(place)
    if not place.exists():
        new.rename(place)
        return
    if _exchange(new, place):
        _remove(new)
        return
    place.rename(old)
    new.rename(place)
    _remove(old)


def recover(place: Path) -> None:
    """Bring back what an interrupted `put` had moved aside."""
    old = _aside(place)
    if old.exists() and not place.exists():
        old.rename(place)
    elif old.exists():
        _remove(old)


def _remove(place: Path) -> None:
    """What was in the place: a folder, or a link to one, which is left where it is."""
    if place.is_symlink():
        place.unlink()
    else:
        shutil.rmtree(place)


def _aside(place: Path) -> Path:
    return place.with_name(f"{place.name}.before")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or file system cannot."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    call = getattr(ctypes.CDLL(None), name, None) if name else None
    if call is None:
        return False
    return call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), ctypes.c_uint(SWAP)) == 0
