"""Values that the ledger knows: plain numbers, texts, truths, and regular lists of these.

Nothing here imports NumPy: whatever offers `tolist` (arrays, NumPy scalars) or `numpy` (tensors) is
turned into plain Python by its own means.
"""

import math
from typing import Any

Value = bool | int | float | str | list

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS = "−"
NO_BREAK_SPACE = "\u00a0"


def plain(value: Any) -> Value:
    """`value` as plain Python: tensors and arrays become (nested) lists, scalars numbers.

    Raises TypeError for what has no such form, such as a ragged list or an object.
    """
    if callable(getattr(value, "detach", None)):  # a PyTorch tensor that may carry a gradient
        value = value.detach()
    if callable(getattr(value, "numpy", None)):
        value = value.numpy()
    if callable(getattr(value, "as_list", None)):  # TensorFlow's TensorShape
        value = value.as_list()
    if callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if isinstance(value, tuple | list):
        value = [plain(item) for item in value]
    if not is_value(value):
        raise TypeError(
            f"a checked value must be a number, a text, true, false, or a regular array of these, "
            f"got {type(value).__name__}"
        )
    return value


def is_value(value: Any) -> bool:
    if isinstance(value, bool | int | float | str):
        return True
    return isinstance(value, list) and shape(value) is not None


def is_whole(value: Value) -> bool:
    """Whether no number in `value` has a fraction; NaN, infinities and texts have none."""
    if isinstance(value, list):
        return all(map(is_whole, value))
    return not isinstance(value, float) or not math.isfinite(value) or value.is_integer()


def shape(value: Value) -> tuple[int, ...] | None:
    """(3, 2) for three rows of two; () for a scalar; None where rows differ in length or kind."""
    if not isinstance(value, list):
        return () if isinstance(value, bool | int | float | str) else None
    inner = {shape(item) for item in value}
    if len(inner) > 1 or None in inner:
        return None
    return (len(value), *(inner.pop() if inner else ()))


def deviation(expected: Value, got: Value) -> float:
    """The largest absolute difference of two values; infinite where they are not comparable.

    0 and False, 1 and True are different, as are texts of different case. NaN equals NaN: some
    entries state that a computation has no answer.
    """
    if isinstance(expected, list):
        if not isinstance(got, list) or shape(expected) != shape(got):
            return math.inf
        return max(map(deviation, expected, got), default=0.0)
    if isinstance(expected, bool | str) or isinstance(got, bool | str | list):
        return 0.0 if type(expected) is type(got) and expected == got else math.inf
    if expected == got or (math.isnan(expected) and math.isnan(got)):
        return 0.0
    difference = abs(expected - got)
    return math.inf if math.isnan(difference) else difference


def show(value: Value, form: str = "", unit: str = "") -> str:
    """`value` as prose prints it.

    `form` is a format specification for numbers (`.4f`, `,d`, `.1%`, `.1e`), `shape` for a list of
    dimensions, or `text if true|text if false`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        words = form.split("|") if form else ["true", "false"]
        if len(words) != 2:
            raise ValueError("true and false need the form 'text if true|text if false'")
        return words[0] if value else words[1]
    if isinstance(value, list):
        if form == "shape":
            return f"({', '.join(map(str, value))}{',' if len(value) == 1 else ''})"
        text = f"[{', '.join(show(item, form) for item in value)}]"
    else:
        text = _number(value, form)
    return f"{text}{NO_BREAK_SPACE}{unit}" if unit else text


def _number(value: int | float, form: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if form.endswith("d"):  # a mean of counts, say, may be a little off its whole number
        value = round(value)
    text = format(value, form)
    if float(text.replace(",", "").rstrip("%") or 0) == 0:
        text = text.lstrip("-")  # a rounded -0.0 says nothing about a sign
    mantissa, e, exponent = text.partition("e")
    if e and value == 0:
        return "0"
    if e:
        text = f"{mantissa}×10{str(int(exponent)).translate(SUPERSCRIPT)}"
    return text.replace("-", MINUS)
