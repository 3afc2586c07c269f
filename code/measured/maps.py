"""Attention maps of the date model, head by head, in a form that a page can draw and add up."""

import base64
from dataclasses import dataclass

import numpy as np

from measured.dates import ISO_LENGTH, decode_isos
from measured.training import shift_right


@dataclass(frozen=True)
class AttentionMap:
    """What each head looks at while one date is written.

    `weights`: (heads, 10, characters of `text`) float32; rows are the characters of `written`.
    """

    text: str
    language: str
    written: str
    weights: np.ndarray


def attention_maps(model, dates, predicted, rows, layer=1):
    """Cross-attention of one decoder layer for some pairs of `dates`: a tuple of `AttentionMap`.

    Args:
        predicted: (pairs, 11) token ids int32, what the model wrote for all of `dates`; it is
            given back to the decoder, so that the maps show the writing of these characters.
        rows: which pairs, ints.

    Raises:
        ValueError: a text of its own length has weight on what follows it, the padding.
    """
    rows = list(rows)
    written = predicted[rows]
    start = dates.targets[rows, :1]
    given, _ = shift_right(np.concatenate([start, written], axis=1))
    _, named = model((dates.sources[rows], given), return_attention_scores=True)
    weights = np.array(named[f"decoder_layer{layer}_cross_attention"])[:, :, :ISO_LENGTH]
    maps = []
    for row, iso, of_heads in zip(rows, decode_isos(written), weights, strict=True):
        text = dates.texts[row]
        if of_heads[..., len(text) :].any():
            raise ValueError(f"row {row}: {text!r} has weight on its padding")
        maps.append(AttentionMap(text, dates.languages[row], iso, of_heads[..., : len(text)]))
    return tuple(maps)


def as_markdown(maps):
    """The maps as divs of class `attention-map` inside one of class `explorer`, for the page.

    `data-weights` is base64 of the little-endian float32 values, so that the page has every bit.
    """
    lines = ['::::: {.explorer data-explorer="heads"}']
    for one in maps:
        values = base64.b64encode(np.ascontiguousarray(one.weights, dtype="<f4").tobytes())
        data = {
            "text": one.text,
            "lang": one.language,
            "written": one.written,
            "heads": len(one.weights),
            "weights": values.decode(),
        }
        attributes = " ".join(f'data-{name}="{value}"' for name, value in data.items())
        shown = f"{one.text} → {one.written}"
        lines += ["", f":::: {{.attention-map {attributes}}}", shown, "::::"]
    return "\n".join([*lines, ":::::"])
