"""Faults to try on the package: read the list, apply one, and know what a result of it depends on.

Each fault of `tests/faults.toml` is a mistake that somebody could make in `code/measured`. The
book's own checks have to find it: see `bookbuild.mutate_run`. Nothing is executed here.
"""

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from bookbuild import freeze as freezing
from bookbuild.problems import BookError, Problem
from bookbuild.project import Project
from bookbuild.source import Source, parse
from ledger.entries import LEDGER, Entry, load_ledger
from ledger.inputs import file_digest

FAULTS = "tests/faults.toml"
PACKAGE = "code/measured"
FIELDS = {"file", "find", "replace", "says", "survives"}
OUT_OF_REACH = "out-of-reach"  # the table of modules without faults


@dataclass(frozen=True)
class Fault:
    """One mistake: in `file`, `find` (which stands there once) becomes `replace`.

    `says` tells it in a sentence. `survives` is the reason why no check can find it, if none can.
    """

    id: str
    file: str  # below code/measured
    find: str
    replace: str
    says: str
    survives: str = ""

    @property
    def path(self) -> str:
        return f"{PACKAGE}/{self.file}"

    def apply(self, text: str) -> str:
        return text.replace(self.find, self.replace, 1)


@dataclass(frozen=True)
class Faults:
    """The whole list. `out_of_reach`: module -> why no fault of it can change a number."""

    faults: tuple[Fault, ...]
    out_of_reach: Mapping[str, str] = field(default_factory=dict)


def load_faults(root: Path) -> Faults:
    """Read the list. Raises BookError where a fault cannot be applied to the package of today."""
    path = root / FAULTS
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        raise BookError(Problem(FAULTS, 0, "does not exist")) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else 0
        raise BookError(Problem(FAULTS, line, f"is not TOML: {error}")) from None
    out_of_reach = tables.pop(OUT_OF_REACH, {})
    problems, faults = [], []
    for id, table in tables.items():
        line = _line(text, id)
        wrong = list(_wrong_fields(table)) or list(_misfit(root, table))
        problems += [Problem(FAULTS, line, f"[{id}] {what}") for what in wrong]
        if not wrong:
            faults.append(Fault(id, **table))
    for module in out_of_reach:
        if not (root / PACKAGE / module).is_file():
            line = _line(text, OUT_OF_REACH)
            problems.append(Problem(FAULTS, line, f"[{OUT_OF_REACH}] {module} does not exist"))
    if problems:
        raise BookError(problems)
    return Faults(tuple(faults), out_of_reach)


def _wrong_fields(table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        yield "must be a table: [id] on a line of its own, then its fields"
        return
    for key in sorted(set(table) - FIELDS):
        yield f"has an unknown field {key}; known: {', '.join(sorted(FIELDS))}"
    for key in ("file", "find", "replace", "says"):
        if key not in table:
            yield f"lacks {key}"
    for key, value in table.items():
        if key in FIELDS and not isinstance(value, str):
            yield f"{key} must be a text"


def _misfit(root: Path, table: Mapping[str, str]) -> Iterator[str]:
    """Why a fault cannot be applied today, or would change nothing."""
    name, find = table["file"], table["find"]
    try:
        text = (root / PACKAGE / name).read_text(encoding="utf-8")
    except OSError:
        yield f"{name} is no module of {PACKAGE}"
        return
    times = text.count(find)
    if times != 1:
        places = f"stands in {times} places of" if times else "no longer stands in"
        yield f"the text to find {places} {name}; the fault has to name exactly one"
        return
    try:
        changed = program(text.replace(find, table["replace"]))
    except SyntaxError as error:
        yield f"{name} would be no Python any more: {error.msg}"
        return
    if changed == program(text):
        yield "changes nothing that runs"


def _line(text: str, id: str) -> int:
    head = re.search(rf"^\[{re.escape(id)}\]", text, re.MULTILINE)
    return text.count("\n", 0, head.start()) + 1 if head else 0


@cache
def program(text: str) -> str:
    """A module's text without what does not run: comments, docstrings, the way it is laid out."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = body[1:]
    return ast.dump(tree)


# What a result depends on.


@dataclass(frozen=True)
class Target:
    """A chapter that faults are tried on.

    `modules` are those of the package that its kernel imported, as the freeze recorded them;
    `program` is a hash of all that runs, and `entries` has what each number is compared with.
    """

    source: Source
    modules: frozenset[str]
    program: str
    entries: Mapping[str, str]

    @property
    def path(self) -> str:
        return self.source.path

    @cached_property
    def key(self) -> str:
        """A hash of all that decides whether its checks pass, the fault aside."""
        return _sha256(self.program, *self.entries.values())

    def key_with(self, fault: Fault) -> str:
        """A hash of all that decides whether its checks pass."""
        return _sha256(self.key, fault.path, fault.find, fault.replace)

    def key_found(self, fault: Fault, entry: str) -> str:
        """The same for a fault that was found here, by `entry` or, where it is empty, by an error.

        Whatever becomes of the other entries, they can only find it sooner.
        """
        compared = self.entries.get(entry, "")
        return _sha256(self.program, compared, fault.path, fault.find, fault.replace)


def load_targets(project: Project) -> tuple[Target, ...]:
    """The chapters with code. Raises BookError for one that was never executed."""
    ledger = load_ledger(project.root / LEDGER)
    targets, problems = [], []
    for chapter in project.chapters:
        source = parse(chapter.path, project.source(chapter))
        if not source.executable:
            continue
        frozen = freezing.read(project.root / freezing.folder_of(chapter.path))
        if why := freezing.why_unusable(frozen):
            problems.append(Problem(chapter.path, 0, f"{why}; run book execute"))
            continue
        targets.append(_target(project.root, source, frozen.inputs, ledger))
    if problems:
        raise BookError(problems)
    return tuple(targets)


def _target(
    root: Path, source: Source, inputs: Mapping[str, Any], ledger: Mapping[str, Entry]
) -> Target:
    modules = frozenset(path for path in inputs["modules"] if path.startswith(f"{PACKAGE}/"))
    entries = {
        id: f"{id} {ledger[id].value!r} {ledger[id].tolerance!r}"
        for id in sorted(inputs["ledger"])
        if id in ledger
    }
    parts = [f"{cell.label}\n{cell.code}" for cell in source.cells]
    parts += [f"{path}\n{_program_of(root / path)}" for path in sorted(modules)]
    parts += [f"{path} {file_digest(root / path)}" for path in sorted(inputs["data"])]
    return Target(source, modules, _sha256(*parts), entries)


def _program_of(path: Path) -> str:
    return program(path.read_text(encoding="utf-8")) if path.is_file() else ""


def reached(fault: Fault, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """The chapters that a fault can change."""
    return tuple(target for target in targets if fault.path in target.modules)


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
