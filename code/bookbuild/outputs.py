"""Write what a cell did as Markdown, character for character as Quarto's Jupyter engine would.

Held to `tests/quarto-reference/expected`, which is Quarto's own output.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bookbuild.source import Cell

# Options that Quarto turns into something else; all others become attributes of the cell's div.
INTERNAL = {
    "label", "echo", "eval", "include", "output", "warning", "error", "code-fold", "code-summary",
    "code-line-numbers", "classes", "fig-cap", "fig-subcap", "fig-alt", "lst-label", "lst-cap",
}  # fmt: skip
IMAGES = {"image/svg+xml": "svg", "image/png": "png"}
KINDS = ("text/markdown", *IMAGES, "text/plain")
MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|])")
PLOT_OBJECT = re.compile(r"[<(\[].*[>)\]]", re.DOTALL)


class UnknownOutput(Exception):
    """A cell showed something that the book has no way to print."""


@dataclass(frozen=True)
class CellMarkdown:
    text: str
    figures: Mapping[str, str | bytes]  # file name → content


def cell_markdown(
    cell: Cell, outputs: Sequence[Mapping[str, Any]], count: int, files: str
) -> CellMarkdown:
    """A cell with its outputs as Markdown.

    Args:
        cell: the cell.
        outputs: Jupyter's outputs, in the order they came.
        count: the cell's place among the chapter's cells, from 1.
        files: the folder beside the chapter that holds its figures, such as `masking_files`.

    Raises:
        UnknownOutput: an output has no form that the book prints.
    """
    option = cell.options.get
    if option("include") is False:
        return CellMarkdown("", {})
    outputs = _shown(cell, outputs)
    if not cell.code and not outputs:
        return CellMarkdown("", {})
    displays = [output for output in outputs if _is_display(output)]
    outer = _labels_the_cell(cell, displays)
    parts = [_opening(cell, outer, count)]
    if option("echo") is not False:
        parts += _code(cell)
    figures: dict[str, str | bytes] = {}
    cell_caption, captions = _captions(cell, displays)
    alts = _alts(cell, displays)
    if option("output") is not False:
        asis = option("output") == "asis"
        number = 0
        for index, output in enumerate(outputs):
            label = cell.label
            if outer and _is_display(output):
                number += 1
                label = f"{label}-{number}"
            if not asis:
                parts.append(_output_opening(cell, output, label, outer))
            parts.append(
                _output(
                    cell,
                    output,
                    index,
                    label,
                    captions,
                    alts,
                    f"{files}/figure-html",
                    figures,
                    asis,
                )
            )
            if not asis:
                parts.append(":::\n")
    if cell_caption:
        parts.append(f"\n{cell_caption}\n")
    parts.append(":::\n\n")
    return CellMarkdown("".join(parts), figures)


def inline_markdown(data: Mapping[str, str]) -> str:
    """The value of an inline expression as it stands in prose; `data` is Jupyter's, by kind."""
    if "text/markdown" in data:
        return data["text/markdown"]
    if "text/html" in data:
        return f"`{data['text/html']}`{{=html}}"
    if set(data) != {"text/plain"}:
        raise UnknownOutput(f"shows {', '.join(sorted(data))}; prose takes text or Markdown")
    text = data["text/plain"]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return MARKDOWN_SIGNS.sub(r"\\\1", text[1:-1])
    return text


def _shown(cell: Cell, outputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Streams joined by kind before displays; without what Quarto leaves out."""
    streams: dict[str, str] = {}
    rest = []
    for output in outputs:
        if output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + output["text"]
        else:
            rest.append(output)
    if cell.options.get("warning") is False:
        streams.pop("stderr", None)
    has_image = any(_is_display(output) and _kind(output, cell) in IMAGES for output in rest)
    rest = [output for output in rest if not _is_plot_object(output, has_image)]
    joined = [
        {"output_type": "stream", "name": name, "text": text} for name, text in streams.items()
    ]
    return joined + rest


def _is_display(output: Mapping[str, Any]) -> bool:
    return output["output_type"] in ("display_data", "execute_result")


def _is_plot_object(output: Mapping[str, Any], has_image: bool) -> bool:
    """`[<matplotlib.lines.Line2D at 0x…>]`, which a plotting call returns for nobody to see."""
    if output["output_type"] != "execute_result" or set(output["data"]) != {"text/plain"}:
        return False
    text = output["data"]["text/plain"].strip()
    if has_image and "\n" not in text:
        return bool(PLOT_OBJECT.fullmatch(text))
    return text.startswith(("[<matplotlib", "<matplotlib"))


def _kind(output: Mapping[str, Any], cell: Cell) -> str:
    data = output["data"]
    if "text/html" in data and "text/markdown" not in data:
        raise UnknownOutput(
            "shows HTML, for which Quarto would add a script from a third party; "
            "show it through Markdown: display(Markdown('`<b>…</b>`{=html}'))"
        )
    for kind in KINDS:
        # Jupyter adds a plain text to everything; beside a form that is not known it says nothing.
        if kind in data and (kind != "text/plain" or len(data) == 1):
            return kind
    raise UnknownOutput(f"shows {', '.join(sorted(data))}; the book prints {', '.join(KINDS)}")


def _labels_the_cell(cell: Cell, displays: Sequence) -> bool:
    """Whether the label goes to the cell (else to its one display)."""
    return (
        cell.options.get("output") is False or cell.label.startswith("tbl-") or len(displays) != 1
    )


def _opening(cell: Cell, outer: bool, count: int) -> str:
    classes = cell.options.get("classes", [])
    words = classes.split() if isinstance(classes, str) else classes
    attributes = [
        f"{key}='{_attribute(value)}'"
        for key, value in sorted(cell.options.items())
        if key not in INTERNAL
    ]
    head = [f"#{cell.label}" if outer else f"#cell-{cell.label}", ".cell"]
    head += [f".{word.lstrip('.')}" for word in words]
    return f"::: {{{' '.join([*head, *attributes])} execution_count={count}}}\n"


def _attribute(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else f"{value}"
    )
    return text.replace("'", "\\'")


def _code(cell: Cell) -> list[str]:
    option = cell.options.get
    ticks = _fence(cell.code, 3)
    head = [f"#{option('lst-label').lstrip('#')}"] if option("lst-label") else []
    head += [".python", ".cell-code"]
    for key, attribute in (
        ("lst-cap", "lst-cap"),
        ("code-fold", "code-fold"),
        ("code-summary", "code-summary"),
        ("code-line-numbers", "code-line-numbers"),
    ):
        if option(key) is not None:
            value = option(key)
            head.append(f'{attribute}="{str(value).lower() if isinstance(value, bool) else value}"')
    return [f"{ticks} {{{' '.join(head)}}}\n", f"{cell.code}\n", f"{ticks}\n"]


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _captions(cell: Cell, displays: Sequence) -> tuple[str | None, list[str]]:
    """The caption of the whole cell, and those of its displays."""
    caption, parts = cell.options.get("fig-cap"), cell.options.get("fig-subcap")
    if parts is not None:
        if len(parts) != len(displays):
            raise UnknownOutput(
                f"has {len(parts)} captions in fig-subcap for {len(displays)} figures; give each"
            )
        return caption, list(parts)
    if caption is None:
        return None, []
    if len(displays) > 1:
        raise UnknownOutput(
            f"has one fig-cap for {len(displays)} displays; add fig-subcap, or show one"
        )
    return (None, [caption]) if displays else (caption, [])


def _output_opening(cell: Cell, output: Mapping[str, Any], label: str, outer: bool) -> str:
    words = [".cell-output"]
    if output["output_type"] == "stream":
        words.append(f".cell-output-{output['name']}")
    elif output["output_type"] == "error":
        words.append(".cell-output-error")
    else:
        words.append(".cell-output-display")
        kind = _kind(output, cell)
        if kind == "text/markdown":
            words.append(".cell-output-markdown")
        if kind not in IMAGES and not (outer and cell.label.startswith("tbl-")):
            words.insert(0, f"#{label}")
        if output.get("execution_count") is not None:
            words.append(f"execution_count={output['execution_count']}")
    return f"\n::: {{{' '.join(words)}}}\n"


def _output(
    cell: Cell,
    output: Mapping[str, Any],
    index: int,
    label: str,
    captions: list[str],
    alts: list[str],
    folder: str,
    figures: dict[str, str | bytes],
    asis: bool,
) -> str:
    if output["output_type"] == "stream":
        return output["text"] if asis and output["name"] == "stdout" else _verbatim(output["text"])
    if output["output_type"] == "error":
        return _verbatim(f"{output['ename']}: {output['evalue']}")
    kind = _kind(output, cell)
    data = output["data"][kind]
    caption = captions.pop(0) if captions else ""
    if kind in IMAGES:
        name = f"{cell.label}-output-{index + 1}.{IMAGES[kind]}"
        figures[name] = data
        alt = alts.pop(0) if alts else ""
        words = [f"#{label}"] + ([f"fig-alt='{_attribute(alt)}'"] if alt else [])
        return f"![{caption}]({folder}/{name}){{{' '.join(words)}}}\n"
    below = f"\n{caption}\n" if caption else ""
    if kind == "text/markdown":
        return f"{data}\n{below}"
    return _verbatim(data) + below


def _alts(cell: Cell, displays: Sequence) -> list[str]:
    """The alternative text of each figure: its own, or the one for all."""
    images = [output for output in displays if _kind(output, cell) in IMAGES]
    alts = cell.options.get("fig-alt", "")
    if isinstance(alts, str):
        return [alts] * len(images)
    if len(alts) != len(images):
        raise UnknownOutput(
            f"has {len(alts)} texts in fig-alt for {len(images)} figures; give one for each"
        )
    return list(alts)


def _verbatim(text: str) -> str:
    ticks = _fence(text, 3)
    return f"{ticks}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{ticks}\n"
