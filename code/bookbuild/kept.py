"""Results that are computed again only where what they come from has changed.

One file holds all results of a kind by their keys; a key is the hash of everything that a result
comes from, the code that makes it included. A file that is damaged or not there costs time only.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class Kept:
    """Results of one kind, as JSON holds them. Only those that were asked for are saved again."""

    def __init__(self, path: Path | None):
        self.path = path
        self._earlier = _read(path) if path else {}
        self._used: dict[str, Any] = {}

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The result that is kept under `key`, or a new one."""
        if key not in self._used:
            self._used[key] = self._earlier[key] if key in self._earlier else make()
        return self._used[key]

    def save(self) -> None:
        """Replace the file at once, if anything in it has changed."""
        if self.path is None or self._used.keys() == self._earlier.keys():
            return
        content = json.dumps(self._used, ensure_ascii=False)
        beside = self.path.with_name(f"{self.path.name}.new")  # one build at a time writes it
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(f"{digest(content)}\n{content}", encoding="utf-8", newline="\n")
            beside.replace(self.path)
        except OSError:
            beside.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        said, _, content = path.read_text(encoding="utf-8").partition("\n")
        return json.loads(content) if said == digest(content) else {}
    except (OSError, ValueError):
        return {}


def digest(*parts: str | bytes) -> str:
    """One hash of several parts; where one ends and the next begins makes a difference."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()


def code_digest(files: Iterable[Path]) -> str:
    """Hash of the code that makes results of a kind."""
    return digest(*(path.read_bytes() for path in files))
