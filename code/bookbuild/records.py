"""Records that the book shows: written whole or not at all, and naming what they were made from."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def put_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record that the book shows, as JSON; its folder is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    beside.write_text(text, encoding="utf-8", newline="\n")
    beside.replace(path)


def hashes(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """SHA-1 of each file, by its path in the project. It is what pandoc's filters can compute too,
    and so tell that a record is out of date.
    """
    texts = {path: path.read_bytes().replace(b"\r\n", b"\n") for path in files}
    return {
        path.relative_to(root).as_posix(): hashlib.sha1(text, usedforsecurity=False).hexdigest()
        for path, text in texts.items()
    }
