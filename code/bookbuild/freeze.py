"""The freeze: what a chapter's execution gave, in Quarto's own format, and what it came from.

    _freeze/chapters/masking/execute-results/html.json     Quarto's, byte for byte
                                             inputs.json   what it was computed from, sealed
                                             numbers.json  every checked number
                             figure-html/*.svg

The three files and the figures belong together by hash: whatever was edited, cut short or mixed is
found by `why_unusable`, never trusted. The hashes are no secret: a forger who computes all of them
anew is found by `book verify` alone, which computes the numbers anew.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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
TEXTS = {str: str}
# What a reader of these files relies on; a mapping {str: …} has any keys.
SHAPES = {
    "html": {"hash": str, "result": {"markdown": str}},
    "inputs": {
        "freeze": str,
        "numbers": str,
        "figures": TEXTS,
        "settings": TEXTS,
        "modules": TEXTS,
        "data": TEXTS,
        "ledger": TEXTS,
        "libraries": TEXTS,
        "cells": [{"label": str, "key": str, "span": list | None}],
        "inlines": [{"after": int, "expression": str, "span": list | None}],
    },
    "numbers": {"chapter": str, "title": str, "said": [str], "numbers": [{"id": str}]},
}


@dataclass(frozen=True)
class Frozen:
    """All files of one chapter's freeze, by path below its folder."""

    files: Mapping[str, bytes]
    links: tuple[str, ...] = ()  # what is no file or folder of its own, but leads elsewhere

    @cached_property
    def html(self) -> dict[str, Any]:
        return json.loads(self.files[f"{RESULTS}/html.json"])

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return json.loads(self.files[f"{RESULTS}/inputs.json"])

    @cached_property
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
        return Inputs.of(self.inputs)

    @property
    def figures(self) -> dict[str, bytes]:
        """Name → content."""
        return {
            path.removeprefix(f"{FIGURES}/"): content
            for path, content in self.files.items()
            if path.startswith(f"{FIGURES}/")
        }


def folder_of(path: str) -> str:
    """`_freeze/chapters/masking` for `chapters/masking.qmd`."""
    return f"{FREEZE}/{path.removesuffix('.qmd')}"


def read(folder: Path) -> Frozen | None:
    """The freeze in `folder` as it lies there, or None if there is none."""
    if not folder.is_dir():
        return None
    files: dict[str, bytes] = {}
    links = ["."] if folder.is_symlink() else []
    for name, entry in _below(folder):
        if entry.is_symlink():
            links.append(name)
        elif entry.is_file():
            files[name] = Path(entry.path).read_bytes()
    return Frozen(files, tuple(links))


def _below(folder: Path, before: str = "") -> Iterator[tuple[str, os.DirEntry]]:
    """Everything below a folder by its relative path, in order; what links lead to is left out."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        yield f"{before}{entry.name}", entry
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), f"{before}{entry.name}/")


def why_unusable(frozen: Frozen | None) -> str | None:
    """Why a freeze cannot be trusted, or None. Looks only at the freeze itself."""
    if frozen and frozen.links:
        what = "folder" if frozen.links[0] == "." else Path(frozen.links[0]).name
        return f"its {what} is a link to elsewhere"
    if frozen is None or f"{RESULTS}/html.json" not in frozen.files:
        return "was never executed"
    for name in SHAPES:
        content = frozen.files.get(f"{RESULTS}/{name}.json")
        if content is None:
            return f"its {name}.json is missing"
        try:
            parsed = json.loads(content)
        except (ValueError, RecursionError):
            return f"its {name}.json {_spoilt(content)}"
        if not isinstance(parsed, dict):
            return f"its {name}.json is not readable"
    inputs = frozen.inputs
    if inputs.get("seal") != _seal(inputs):
        return "its inputs.json was changed by hand"
    if inputs.get("format") != FORMAT:
        return "its freeze is in an older format"
    if not _is_as_written(inputs, frozen):
        return "its inputs.json was changed by hand"
    for name, shape in SHAPES.items():
        if not _fits(getattr(frozen, name), shape):
            return f"its {name}.json is not what this build writes"
    if inputs["freeze"] != _sha256(frozen.files[f"{RESULTS}/html.json"]):
        return "its html.json is not the one its inputs were recorded for"
    if inputs["numbers"] != _sha256(frozen.files[f"{RESULTS}/numbers.json"]):
        return "its numbers.json was changed by hand"
    figures = frozen.figures
    for name, digest in inputs["figures"].items():
        if name not in figures:
            return f"its figure {name} is missing"
        if _sha256(figures[name]) != digest:
            return f"its figure {name} is not the one that was frozen"
    if extra := sorted(set(figures) - set(inputs["figures"])):
        return f"its figure {extra[0]} belongs to another run"
    return None


def _spoilt(content: bytes) -> str:
    if b"<<<<<<<" in content or b">>>>>>>" in content:
        return "holds merge conflict marks"
    return "is not readable" if content.strip() else "is empty"


def _is_as_written(inputs: Mapping[str, Any], frozen: Frozen) -> bool:
    """Whether inputs.json is, byte for byte, how its content is written: no key stands twice."""
    content = frozen.files[f"{RESULTS}/inputs.json"].replace(b"\r\n", b"\n")
    return content == _json(inputs) + b"\n"


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if not isinstance(shape, dict):
        return isinstance(value, shape)
    if not isinstance(value, dict):
        return False
    if str in shape:
        return all(_fits(item, shape[str]) for item in value.values())
    return all(key in value and _fits(value[key], below) for key, below in shape.items())


def freeze(run: Run, ledger: Mapping[str, Entry], settings: Mapping[str, str]) -> Frozen:
    """A finished run as files. `settings`: name → hash of what else decides how cells are run."""
    record = run.record
    numbers = numbers_of(run.source, record, ledger)
    return assemble(
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
            "python": record.get("python", ""),
        },
    )


def assemble(
    source: Source,
    pieces: tuple[PieceResult, ...],
    figures: Mapping[str, bytes],
    numbers: dict[str, Any],
    origin: dict[str, Any],
    result: Mapping[str, Any] | None = None,
) -> Frozen:
    """The files of a freeze. `result`: what Quarto's own html.json said besides the Markdown."""
    markdown, cells, inlines = _markdown(source, pieces)
    result = result or {
        "engine": "jupyter",
        "markdown": "",
        "supporting": [f"{Path(source.path).stem}_files"],
        "filters": [],
        "includes": {},
    }
    html = {"hash": source.md5, "result": {**result, "markdown": markdown}}
    # Without a newline at the end, as Quarto writes it.
    return sealed(_json(html), figures, numbers, origin, cells, inlines)


def sealed(
    html: bytes,
    figures: Mapping[str, bytes],
    numbers: dict[str, Any],
    origin: dict[str, Any],
    cells: list,
    inlines: list,
) -> Frozen:
    """Tie an html.json, its figures and its numbers to what they were computed from."""
    numbers_bytes = _json({"format": FORMAT, "freeze": _sha256(html), **numbers}) + b"\n"
    inputs = {
        "format": FORMAT,
        "freeze": _sha256(html),
        "numbers": _sha256(numbers_bytes),
        "figures": {name: _sha256(figures[name]) for name in sorted(figures)},
        **origin,
        "cells": cells,
        "inlines": inlines,
    }
    inputs["seal"] = _seal(inputs)
    files = {f"{FIGURES}/{name}": figures[name] for name in sorted(figures)}
    files[f"{RESULTS}/html.json"] = html
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


def numbers_of(
    source: Source, record: Mapping[str, Any], ledger: Mapping[str, Entry]
) -> dict[str, Any]:
    """What numbers.json says of a run, without the marks of the freeze that it belongs to."""
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


def number_of(value: Any) -> Any:
    """A value of numbers.json as it was computed: NaN and the infinities are texts there."""
    if isinstance(value, list):
        return [number_of(item) for item in value]
    return {"NaN": math.nan, "∞": math.inf, "−∞": -math.inf}.get(value, value)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def _seal(inputs: Mapping[str, Any]) -> str:
    """Hash of everything else in inputs.json: it says that no line of it was edited."""
    rest = {key: value for key, value in inputs.items() if key != "seal"}
    return _sha256(json.dumps(rest, sort_keys=True, ensure_ascii=False).encode())
