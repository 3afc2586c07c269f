"""Know without rendering that the site in place is the one these sources would give."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bookbuild.freeze import Frozen
from bookbuild.project import CONFIG, Project
from bookbuild.source import Source
from ledger.inputs import file_digest

NOTE = "site.json"  # in the work folder


def site_key(project: Project, sources: Sequence[Source], frozen: Mapping[str, Frozen]) -> str:
    """Hash of everything that the site is made from."""
    root = project.root
    here = Path(__file__).parent
    ours = [
        path for path in sorted(here.rglob("*")) if path.suffix in (".py", ".lua", ".j2", ".typ")
    ]
    named = [*project.bibliography, *project.filters, project.csl or CONFIG]
    files = [root / CONFIG, *(root / name for name in named)]
    made = root / ".book" / "take-away"
    files += sorted(path for path in made.glob("*") if path.is_file())
    # What the wheel beside the notebooks holds, and what their first cells say.
    wheel = [root / name for name in ("pyproject.toml", "ledger.toml", "_environment", "README.md")]
    wheel += sorted((root / "code").rglob("*.py"))
    files += [path for path in wheel if path.is_file()]
    shown = [
        path for pattern in project.resources for path in sorted(root.glob(pattern.lstrip("/")))
    ]
    for folder in (root / "media", here.parents[1] / "media", *shown):
        files += sorted(path for path in (folder, *folder.rglob("*")) if path.is_file())
    parts = [f"{path} {file_digest(path)}" for path in [*ours, *files]]
    for source in sources:
        made = frozen.get(source.path)
        parts.append(f"{source.path} {source.md5} {made.inputs['seal'] if made else ''}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_built(project: Project, work: Path, key: str) -> bool:
    """Whether the site there is the one that `key` names, with every file as it was written."""
    try:
        note = json.loads((work / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return note.get("key") == key and note.get("files") == _listing(project)


def note_built(project: Project, work: Path, key: str) -> None:
    """Remember what the site that was just put in place is made from."""
    note = {"key": key, "files": _listing(project)}
    (work / NOTE).write_text(json.dumps(note), encoding="utf-8")


def _listing(project: Project) -> dict[str, list[int]]:
    site = str(project.root / project.output_dir)
    found = {}
    for folder, _, names in os.walk(site):
        for name in names:
            stat = os.stat(f"{folder}{os.sep}{name}")  # noqa: PTH116 (called for every file)
            path = f"{folder[len(site) :]}{os.sep}{name}"[1:]
            found[path.replace(os.sep, "/")] = [stat.st_size, stat.st_mtime_ns]
    return found
