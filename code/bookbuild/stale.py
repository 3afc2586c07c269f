"""Decide which chapters must be executed, and why. Executes nothing, imports nothing heavy."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bookbuild.freeze import Frozen, why_unusable
from bookbuild.project import FIGURE_DEFAULTS, Project
from bookbuild.source import Source
from bookbuild.weave import weave
from ledger.inputs import Inputs, file_digest

# A change here changes what a cell's outputs look like, whatever the chapter.
EXECUTOR = ("kernel.py", "outputs.py")
FIGURE_KEY = re.compile(r"""\b(fig-(?:format|width|height|dpi)):[ ]*["']?([\w.]+)""")


@dataclass(frozen=True)
class Verdict:
    """What to do with one chapter.

    fresh: its freeze holds. prose: only text around the cells changed; `frozen` is the freeze that
    an execution would give. stale: it must be executed, for `reason`. plain: it has no code.
    """

    source: Source
    state: Literal["fresh", "prose", "stale", "plain"]
    reason: str = ""
    frozen: Frozen | None = None


def judge(
    source: Source,
    frozen: Frozen | None,
    settings: Mapping[str, str],
    changed: Callable[[Inputs], list[str]],
) -> Verdict:
    """The verdict on one chapter. `changed` says what differs from recorded inputs today."""
    if not source.executable:
        return Verdict(source, "plain")
    if reason := why_unusable(frozen):
        return Verdict(source, "stale", reason)
    if frozen.numbers.get("chapter") != source.path:
        return Verdict(source, "stale", "its freeze is that of another chapter")
    then = frozen.inputs["settings"]
    for name in sorted({*then, *settings}):
        if then.get(name) != settings.get(name):
            return Verdict(source, "stale", f"{name} changed")
    if reasons := changed(frozen.computed_from):
        return Verdict(source, "stale", _first_of(reasons))
    if frozen.hash == source.md5:
        return Verdict(source, "fresh", frozen=frozen)
    woven = weave(frozen, source)
    if woven is None:
        return Verdict(source, "stale", _what_in_the_text(frozen, source))
    return Verdict(source, "prose", "its prose changed", woven)


def _first_of(reasons: list[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more


def _what_in_the_text(frozen: Frozen, source: Source) -> str:
    then = {cell["label"]: cell["key"] for cell in frozen.inputs["cells"]}
    now = {cell.label: cell.key for cell in source.cells}
    for label, key in now.items():
        if label not in then:
            return f"cell {label} is new"
        if then[label] != key:
            return f"cell {label} changed"
    for label in then:
        if label not in now:
            return f"cell {label} is gone"
    if list(then) != list(now):
        return "its cells are in another order"
    if any(cell["span"] is None for cell in frozen.inputs["cells"]):
        return "its text changed, and where its outputs stand in the old one is not known"
    return "an inline expression changed, or moved past a cell"


def settings_of(project: Project) -> dict[str, str]:
    """Name → hash of what decides, besides the chapters, how cells run and show."""
    return _settings(project.root, project.html)


def settings_in(root: Path, config: str) -> dict[str, str]:
    """The same, from the text of `_quarto.yml`, where there is no YAML reader.

    The keys stand in one place of that file: the build refuses them in any other.
    """
    lines = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in config.splitlines())
    return _settings(root, {key: _scalar(text) for key, text in FIGURE_KEY.findall(lines)})


def _settings(root: Path, html: Mapping[str, object]) -> dict[str, str]:
    figures = {key: html.get(key, default) for key, default in FIGURE_DEFAULTS.items()}
    here = Path(__file__).parent
    found = {
        "the figures' format in _quarto.yml": json.dumps(figures, sort_keys=True),
        "the executor": "".join(str(file_digest(here / name)) for name in EXECUTOR),
        "_environment": str(file_digest(root / "_environment")),
    }
    return {name: hashlib.sha256(text.encode()).hexdigest()[:32] for name, text in found.items()}


def _scalar(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
