"""Take a chapter's `.qmd` apart: prose, code cells, inline expressions. Nothing is executed.

The pieces are those that Quarto's Jupyter engine makes: the front matter, a Markdown piece between
two cells, a cell. What this build does not know is refused with its line.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bookbuild.problems import BookError, Problem

OPTIONS: Mapping[str, type | tuple[type, ...]] = {
    "label": str,
    "echo": bool,
    "eval": bool,
    "include": bool,
    "output": (bool, str),
    "warning": bool,
    "error": bool,
    "code-fold": (bool, str),
    "code-summary": str,
    "code-line-numbers": (bool, str),
    "class-output": str,
    "classes": (str, list),
    "fig-cap": str,
    "fig-subcap": list,
    "fig-alt": (str, list),
    "fig-width": (int, float),
    "fig-height": (int, float),
    "filename": str,
    "layout-ncol": int,
    "lst-label": str,
    "lst-cap": str,
    "tbl-cap": str,
}
FRONT_MATTER = {"title", "description", "code-fold", "include-in-header", "nocite", "toc"}
LABEL = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
ENGINE = re.compile(r"^\{\s*([A-Za-z]\w*)( *[ ,].*)?\}$")
INLINE = re.compile(r"(^|[^`])`\{python\}[ \t]([^`]+)`", re.MULTILINE)
PLAIN = re.compile(
    r"""(?P<key>[\w-]+):[ ]+"""
    r"""(?:"(?P<quoted>[^"\\]*)"|(?P<text>[A-Za-z](?:[^:#]|:(?=\S)|(?<=\S)\#)*))"""
)
SHORTCODE = re.compile(r"\{\{[<%].*?[>%]\}\}")


@dataclass(frozen=True)
class Inline:
    """An expression in prose, `` `{python} say("pe-norm")` ``; offsets are into its piece."""

    expression: str
    start: int
    end: int


@dataclass(frozen=True)
class Prose:
    text: str
    line: int

    @cached_property
    def inlines(self) -> tuple[Inline, ...]:
        return tuple(
            Inline(found.group(2).strip(), found.end(1), found.end())
            for found in INLINE.finditer(self.text)
        )


@dataclass(frozen=True)
class Cell:
    """One code cell. `line` is that of its fence, `code_line` that of its first line of code."""

    code: str
    line: int
    code_line: int
    options: Mapping[str, Any] = field(default_factory=dict)
    # The lines that give the options, as they stand.
    header: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        return self.options["label"]

    @property
    def key(self) -> str:
        """Hash of all that decides what the cell does and shows, given the cells before it."""
        text = repr((self.code, self.header))  # known without a YAML reader
        return hashlib.sha256(text.encode()).hexdigest()[:32]


Piece = Prose | Cell


@dataclass(frozen=True)
class Source:
    path: str
    text: str  # with LF line endings
    meta: Mapping[str, Any]
    pieces: tuple[Piece, ...]

    @property
    def md5(self) -> str:
        """What Quarto's own freeze compares."""
        return hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()

    @property
    def title(self) -> str:
        if "title" in self.meta:
            return str(self.meta["title"])
        heading = re.search(r"^# (.*?)\s*(\{[^}]*\})?\s*$", self.text, re.MULTILINE)
        return heading.group(1) if heading else self.path

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Cell))

    @property
    def executable(self) -> bool:
        """Whether Quarto would start a kernel: inline expressions alone do not make it do so."""
        return bool(self.cells)


def parse(path: str, text: str) -> Source:
    """Take `text`, the source of chapter `path`, apart. Raises BookError with all problems."""
    source, problems = _take_apart(path, text, _yaml)
    problems += _check_labels(source)
    problems += _check_prose(source)
    if problems:
        raise BookError(problems)
    return source


def skim(path: str, text: str) -> Source:
    """The same pieces with the standard library alone, unchecked.

    Of front matter and cell options only what is written as one plain `key: value` line is read.
    """
    return _take_apart(path, text, _plain_lines)[0]


Reader = Callable[[str, list[str], int, str, list[Problem]], dict[str, Any]]


def _take_apart(path: str, text: str, read: Reader) -> tuple[Source, list[Problem]]:
    lines = text.split("\n")
    problems: list[Problem] = []
    pieces: list[Piece] = []
    meta, start = _front_matter(path, lines, read, problems)
    if start:
        pieces.append(Prose("\n".join(lines[:start]), 1))
    buffer_start = start
    number = start
    while number < len(lines):
        fence = FENCE.match(lines[number])
        if not fence:
            number += 1
            continue
        end = _closing(lines, number, fence["fence"])
        engine = ENGINE.match(fence["info"].strip())
        if engine is None:
            number = end + 1
            continue
        if end == len(lines):
            problems.append(Problem(path, number + 1, "this cell is never closed; end it with ```"))
        if engine[1] != "python":
            problems.append(
                Problem(path, number + 1, f"cells are {{python}}, got {fence['info'].strip()}")
            )
        elif fence["info"].strip() != "{python}":
            problems.append(
                Problem(
                    path, number + 1, "write cell options as `#| key: value` lines below the fence"
                )
            )
        if fence["indent"] or fence["fence"][0] == "~":
            problems.append(Problem(path, number + 1, "a cell's fence is ``` in the first column"))
        _add_prose(pieces, lines, buffer_start, number)
        pieces.append(_cell(path, lines, number, end, read, problems))
        number = buffer_start = end + 1
    _add_prose(pieces, lines, buffer_start, len(lines))
    return Source(path, text, meta, tuple(pieces)), problems


def _closing(lines: list[str], opening: int, fence: str) -> int:
    """Index of the line that closes a fence, or the number of lines."""
    closing = re.compile(rf"^\s*{re.escape(fence[0])}{{{len(fence)},}}\s*$")
    for number in range(opening + 1, len(lines)):
        if closing.match(lines[number]):
            return number
    return len(lines)


def _add_prose(pieces: list[Piece], lines: list[str], start: int, end: int) -> None:
    """Append lines start..end without the blank ones around them, as Quarto does."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    if start < end:
        pieces.append(Prose("\n".join(lines[start:end]), start + 1))


def _front_matter(
    path: str, lines: list[str], read: Reader, problems: list[Problem]
) -> tuple[dict, int]:
    """The YAML at the top and the index of the line after it."""
    if not lines or lines[0].rstrip() != "---":
        return {}, 0
    for end in range(1, len(lines)):
        if lines[end].rstrip() in ("---", "..."):
            break
    else:
        problems.append(Problem(path, 1, "the front matter is never closed; end it with ---"))
        return {}, 0
    meta = read(path, lines[1:end], 2, "front matter", problems)
    problems += [
        Problem(path, _find(lines, f"{key}:"), f"front matter key {key} is unknown to this build; "
                f"known: {', '.join(sorted(FRONT_MATTER))}")
        for key in meta
        if key not in FRONT_MATTER
    ]  # fmt: skip
    return meta, end + 1


def _cell(
    path: str, lines: list[str], opening: int, end: int, read: Reader, problems: list[Problem]
) -> Cell:
    first = opening + 1
    while first < end and lines[first].startswith("#|"):
        first += 1
    header = "\n".join(lines[opening + 1 : first])
    options = read(
        path,
        [line[2:].removeprefix(" ") for line in lines[opening + 1 : first]],
        opening + 2,
        "cell options",
        problems,
    )
    for key, value in options.items():
        line = _find(lines, f"{key}:", opening + 1)
        if key not in OPTIONS:
            problems.append(
                Problem(path, line, f"cell option {key} is not known to this build; known: "
                        f"{', '.join(OPTIONS)}")
            )  # fmt: skip
        elif not _is_one_of(value, OPTIONS[key]):
            wanted = OPTIONS[key] if isinstance(OPTIONS[key], tuple) else (OPTIONS[key],)
            problems.append(
                Problem(path, line, f"{key} takes {' or '.join(t.__name__ for t in wanted)}, "
                        f"got {value!r}")
            )  # fmt: skip
    if isinstance(output := options.get("output"), str) and output != "asis":
        line = _find(lines, "output:", opening + 1)
        problems.append(Problem(path, line, f"output takes true, false or asis, got {output!r}"))
    while first < end and not lines[first].strip():
        first += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    label = options.get("label")
    if label is None:
        problems.append(
            Problem(path, opening + 1, "cell without a label; Quarto would give it a random id. "
                    "Add `#| label: what-it-shows`")
        )  # fmt: skip
        options = {**options, "label": ""}
    elif isinstance(label, str) and not LABEL.fullmatch(label):
        problems.append(
            Problem(
                path, opening + 2, f"label {label!r} must be lower-case words joined by hyphens"
            )
        )
    return Cell("\n".join(lines[first:end]), opening + 1, first + 1, options, header)


def _is_one_of(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """isinstance, but true and false are no numbers."""
    if isinstance(value, bool):
        return kinds is bool or (isinstance(kinds, tuple) and bool in kinds)
    return isinstance(value, kinds)


def _yaml(
    path: str, lines: list[str], first: int, what: str, problems: list[Problem]
) -> dict[str, Any]:
    """A YAML mapping, or {} with a problem noted. `first` is the number of its first line."""
    import yaml  # here, since the hooks have the standard library only

    try:
        found = yaml.load("\n".join(lines), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first + (mark.line if mark else 0)
        said = getattr(error, "problem", None) or getattr(error, "reason", error)
        problems.append(Problem(path, line, f"{what} are not YAML: {said}"))
        return {}
    if found is None:
        return {}
    if not isinstance(found, dict):
        problems.append(Problem(path, first, f"{what} must be `key: value` lines"))
        return {}
    return found


def _plain_lines(
    path: str, lines: list[str], first: int, what: str, problems: list[Problem]
) -> dict[str, Any]:
    """The keys whose values are true, false, or text in which YAML has no signs of its own."""
    found: dict[str, Any] = {}
    for line in lines:
        if plain := PLAIN.fullmatch(line.rstrip()):
            quoted, text = plain["quoted"], plain["text"]
            found[plain["key"]] = {"true": True, "false": False}.get(text, text or quoted)
    return found


def _find(lines: list[str], text: str, start: int = 0) -> int:
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number + 1
    return start + 1


def _check_labels(source: Source) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for cell in source.cells:
        if cell.label and cell.label in seen:
            yield Problem(
                source.path,
                cell.line + 1,
                f"label {cell.label} is taken by the cell on line {seen[cell.label]}; rename one",
            )
        seen.setdefault(cell.label, cell.line)


def _check_prose(source: Source) -> Iterator[Problem]:
    for piece in source.pieces:
        if not isinstance(piece, Prose):
            continue
        for number, line in outside_code(piece):
            if found := SHORTCODE.search(line):
                yield Problem(
                    source.path, number, f"shortcode {found.group()} is not known to this build"
                )
        if piece.inlines and not source.executable:
            line = piece.line + piece.text.count("\n", 0, piece.inlines[0].start)
            yield Problem(
                source.path, line, "an inline expression needs a code cell before it in its chapter"
            )


def outside_code(piece: Prose) -> Iterator[tuple[int, str]]:
    """Numbered lines of prose that are not in a fenced block, inline code blanked."""
    fence = None
    for number, line in enumerate(piece.text.split("\n"), piece.line):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found["fence"]
        elif fence is not None:
            if re.fullmatch(rf"\s*{re.escape(fence[0])}{{{len(fence)},}}\s*", line):
                fence = None
        else:
            yield number, re.sub(r"(`+).*?\1", "", line)
