"""The freeze: what a chapter's execution gave, in Quarto's own format, and what it came from.

    _freeze/chapters/masking/execute-results/html.json     Quarto's, byte for byte
                                             inputs.json   what it was computed from, sealed
                                             numbers.json  every checked number
                             figure-html/*.svg

The three files and the figures belong together by hash: whatever was edited, cut short or mixed is
found by `why_unusable`, never trusted.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookbuild.run import PieceResult, Run
from bookbuild.source import Cell, Source
from ledger.entries import Entry
from ledger.inputs import Inputs
from ledger.values import deviation, show

FORMAT = 1
FREEZE = "_freeze"
RESULTS = "execute-results"
FIGURES = "figure-html"


@dataclass(frozen=True)
class Frozen:
    """All files of one chapter's freeze, by path below its folder."""

    files: Mapping[str, bytes]

    @property
    def html(self) -> dict[str, Any]:
        return json.loads(self.files[f"{RESULTS}/html.json"])

    @property
    def inputs(self) -> dict[str, Any]:
        return json.loads(self.files[f"{RESULTS}/inputs.json"])

    @property
    def numbers(self) -> dict[str, Any]:
        return json.loads(self.files[f"{RESULTS}/numbers.json"])

    @property
    def markdown(self) -> str:
        return self.html["result"]["markdown"]

    @property
    def hash(self) -> str:
        """MD5 of the source that this was made from."""
        return self.html["hash"]

    @property
    def computed_from(self) -> Inputs:
        record = self.inputs
        return Inputs(*(record[key] for key in ("modules", "data", "ledger", "libraries")))


def folder_of(path: str) -> str:
    """`_freeze/chapters/masking` for `chapters/masking.qmd`."""
    return f"{FREEZE}/{path.removesuffix('.qmd')}"


def read(folder: Path) -> Frozen | None:
    """The freeze in `folder` as it lies there, or None if there is none."""
    if not folder.is_dir():
        return None
    return Frozen(
        {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    )


def why_unusable(frozen: Frozen | None) -> str | None:
    """Why a freeze cannot be trusted, or None. Looks only at the freeze itself."""
    if frozen is None or f"{RESULTS}/html.json" not in frozen.files:
        return "was never executed"
    for name in ("html", "inputs", "numbers"):
        content = frozen.files.get(f"{RESULTS}/{name}.json")
        if content is None:
            return f"its {name}.json is missing"
        try:
            parsed = json.loads(content)
        except ValueError:
            marks = b"<<<<<<<" in content or b">>>>>>>" in content
            return f"its {name}.json {'holds merge conflict marks' if marks else 'is not readable'}"
        if not isinstance(parsed, dict):
            return f"its {name}.json is not readable"
    inputs = frozen.inputs
    if inputs.get("seal") != _seal(inputs):
        return "its inputs.json was changed by hand"
    if inputs.get("format") != FORMAT:
        return "its freeze is in an older format"
    if inputs["freeze"] != _sha256(frozen.files[f"{RESULTS}/html.json"]):
        return "its html.json is not the one its inputs were recorded for"
    if inputs["numbers"] != _sha256(frozen.files[f"{RESULTS}/numbers.json"]):
        return "its numbers.json was changed by hand"
    figures = {
        path.removeprefix(f"{FIGURES}/"): content
        for path, content in frozen.files.items()
        if path.startswith(f"{FIGURES}/")
    }
    for name, digest in inputs["figures"].items():
        if name not in figures:
            return f"its figure {name} is missing"
        if _sha256(figures[name]) != digest:
            return f"its figure {name} was changed by hand"
    if extra := sorted(set(figures) - set(inputs["figures"])):
        return f"its figure {extra[0]} belongs to another run"
    return None


def freeze(run: Run, ledger: Mapping[str, Entry], settings: Mapping[str, str]) -> Frozen:
    """A finished run as files. `settings`: name → hash of what else decides how cells are run."""
    record = run.record
    numbers = _numbers(run.source, record, ledger)
    return _assemble(
        run.source,
        run.pieces,
        run.figures,
        numbers,
        {
            "settings": dict(settings),
            "modules": record["modules"],
            "data": record["data"],
            "ledger": record["ledger"],
            "libraries": record["libraries"],
        },
    )


def weave(frozen: Frozen, source: Source) -> Frozen | None:
    """The freeze that executing `source` would give, made from the old one, or None.

    It can be made when only prose changed: the same cells in the same order, and each inline
    expression still standing between the same two cells. What only says a number may come again,
    move between its cells or go; any other expression could change the kernel's state, so of those
    there must be the same ones in the same order.
    """
    inputs = frozen.inputs
    markdown = frozen.markdown
    if [cell["key"] for cell in inputs["cells"]] != [cell.key for cell in source.cells]:
        return None
    cells = [markdown[slice(*cell["span"])] for cell in inputs["cells"]]
    says: dict[tuple[int, str], str] = {}
    others: list[tuple[tuple[int, str], str]] = []
    for inline in inputs["inlines"]:
        place = (inline["after"], inline["expression"])
        value = markdown[slice(*inline["span"])]
        if _said(inline["expression"]):
            says[place] = value
        else:
            others.append((place, value))
    pieces, used, count = [], set(), 0
    left = iter(others)
    for piece in source.pieces:
        if isinstance(piece, Cell):
            pieces.append(PieceResult(markdown=cells[count]))
            count += 1
            continue
        values = []
        for inline in piece.inlines:
            place = (count, inline.expression)
            if _said(inline.expression) is None:
                before, value = next(left, (None, ""))
                if before != place:
                    return None
                values.append(value)
            elif place in says:
                used.add(place)
                values.append(says[place])
            else:
                return None
        pieces.append(PieceResult(inlines=tuple(values)))
    if next(left, None) is not None:
        return None
    gone = {_said(expression) for _, expression in set(says) - used}
    gone -= {_said(expression) for _, expression in used}
    # Where a cell or a longer expression says numbers too, only an execution knows what is left.
    elsewhere = [cell.code for cell in source.cells] + [place[1] for place, _ in others]
    if gone and any("say(" in code for code in elsewhere):
        return None
    numbers = frozen.numbers | {"title": source.title}
    del numbers["format"], numbers["freeze"]
    numbers["said"] = sorted(set(numbers["said"]) - gone)
    unsaid = gone - {number["id"] for number in numbers["numbers"]}
    entries = {id: digest for id, digest in inputs["ledger"].items() if id not in unsaid}
    figures = {
        path.removeprefix(f"{FIGURES}/"): content
        for path, content in frozen.files.items()
        if path.startswith(f"{FIGURES}/")
    }
    kept = {key: inputs[key] for key in ("settings", "modules", "data", "ledger", "libraries")}
    kept["ledger"] = entries
    return _assemble(source, tuple(pieces), figures, numbers, kept)


def _said(expression: str) -> str | None:
    """The id, if an expression is `say("id")` and nothing more."""
    if expression.startswith("say(") and expression.endswith(")"):
        id = expression[4:-1].strip()
        if len(id) > 2 and id[0] == id[-1] and id[0] in "'\"" and id[0] not in id[1:-1]:
            return id[1:-1]
    return None


def _assemble(
    source: Source,
    pieces: tuple[PieceResult, ...],
    figures: Mapping[str, bytes],
    numbers: dict[str, Any],
    origin: dict[str, Any],
) -> Frozen:
    markdown, cells, inlines = _markdown(source, pieces)
    html = {
        "hash": source.md5,
        "result": {
            "engine": "jupyter",
            "markdown": markdown,
            "supporting": [f"{Path(source.path).stem}_files"],
            "filters": [],
            "includes": {},
        },
    }
    html_bytes = _json(html)  # without a newline at the end, as Quarto writes it
    numbers_bytes = _json({"format": FORMAT, "freeze": _sha256(html_bytes), **numbers}) + b"\n"
    inputs = {
        "format": FORMAT,
        "freeze": _sha256(html_bytes),
        "numbers": _sha256(numbers_bytes),
        "figures": {name: _sha256(figures[name]) for name in sorted(figures)},
        **origin,
        "cells": cells,
        "inlines": inlines,
    }
    inputs["seal"] = _seal(inputs)
    files = {f"{FIGURES}/{name}": figures[name] for name in sorted(figures)}
    files[f"{RESULTS}/html.json"] = html_bytes
    files[f"{RESULTS}/inputs.json"] = _json(inputs) + b"\n"
    files[f"{RESULTS}/numbers.json"] = numbers_bytes
    return Frozen(dict(sorted(files.items())))


def _markdown(source: Source, results: tuple[PieceResult, ...]) -> tuple[str, list, list]:
    """The chapter's Markdown, and where in it each cell and each inline value stands."""
    parts: list[str] = []
    cells, inlines = [], []
    length = 0

    def add(text: str) -> tuple[int, int]:
        nonlocal length
        parts.append(text)
        length += len(text)
        return length - len(text), length

    for piece, result in zip(source.pieces, results, strict=True):
        if isinstance(piece, Cell):
            span = add(result.markdown)
            cells.append({"label": piece.label, "key": piece.key, "span": span})
            add("\n")
            continue
        position = 0
        for inline, value in zip(piece.inlines, result.inlines, strict=True):
            add(piece.text[position : inline.start])
            inlines.append(
                {"after": len(cells), "expression": inline.expression, "span": add(value)}
            )
            position = inline.end
        add(piece.text[position:] + "\n\n")
    return "".join(parts), cells, inlines


def _numbers(
    source: Source, record: Mapping[str, Any], ledger: Mapping[str, Entry]
) -> dict[str, Any]:
    rows = []
    for id, value in record["checked"].items():
        entry = ledger[id]
        off = deviation(entry.value, value)
        rows.append(
            {
                "id": id,
                "cell": _cell_that_checks(source, id),
                "statement": entry.statement,
                "shown": entry.show(value),
                "expected": entry.show(entry.value),
                "tolerance": "exact" if entry.tolerance == 0 else show(entry.tolerance, ".2g"),
                "reason": entry.reason,
                "source": entry.source,
                "value": _finite(value),
                "deviation": off / entry.tolerance if entry.tolerance else None,
            }
        )
    return {
        "chapter": source.path,
        "title": source.title,
        "environment": record["environment"],
        "said": record["said"],
        "numbers": rows,
    }


def _cell_that_checks(source: Source, id: str) -> str:
    """Label of the cell whose code names the id; an id made at run time has none."""
    for cell in source.cells:
        if f'"{id}"' in cell.code or f"'{id}'" in cell.code:
            return cell.label
    return ""


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become texts."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else show(value)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def _seal(inputs: Mapping[str, Any]) -> str:
    """Hash of everything else in inputs.json: it says that no line of it was edited."""
    rest = {key: value for key, value in inputs.items() if key != "seal"}
    return _sha256(json.dumps(rest, sort_keys=True, ensure_ascii=False).encode())
