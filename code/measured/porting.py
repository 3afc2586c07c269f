"""The same few lines under Keras 2 and under Keras 3: what does each library say?

Keras 2 lives on as the package `tf_keras`; both can be imported side by side. Nothing here imports
it: whoever compares passes the libraries in.
"""

import logging
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

LOGGERS = ("absl", "tensorflow")
# Colours of a terminal; quotes and code marks, which in a Markdown table would have a meaning.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MARKS = re.compile(r"[`\"]")


@dataclass(frozen=True)
class Heard:
    """What came of a call: its value, and what it said on the way."""

    value: Any = None
    error: str = ""  # "ValueError: text", empty where none was raised
    warnings: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """By which way the caller is told: error, warning, log, or nothing."""
        if self.error:
            return "error"
        return "warning" if self.warnings else "log" if self.logs else "nothing"

    @property
    def sentence(self) -> str:
        """The first sentence of what was said, the error before the warning before the log.

        Without what was received: it may be a path of this machine.
        """
        said = [text for text in (self.error, *self.warnings, *self.logs) if text]
        return re.split(r"(?<=[.!])\s|\s*Received: |: filepath=", said[0])[0] if said else ""


def listen(run: Callable[[], Any]) -> Heard:
    """Call `run` without arguments and note value, error, warnings and log lines.

    Texts are on one line each, without colours, quotes and code marks. Interrupts pass through.
    """
    with warnings.catch_warnings(record=True) as heard, _collected() as logs:
        warnings.simplefilter("always")
        value, error = None, ""
        try:
            value = run()
        except Exception as raised:
            error = f"{type(raised).__name__}: {_plain(str(raised))}"
    # Python shows these only to the code that causes them: NumPy has one on how Keras hands over
    # arrays, Python 3.13 one on how TensorFlow reads programs. They say nothing about the call.
    told = (warning for warning in heard if not issubclass(warning.category, DeprecationWarning))
    return Heard(value, error, tuple(_plain(str(each.message)) for each in told), tuple(logs))


def compare(cases: Mapping[str, Callable], libraries) -> dict[str, list[Heard]]:
    """Run each case, a function of a Keras, under every library: name -> one Heard each."""
    return {
        name: [listen(lambda case=case, keras=keras: case(keras)) for keras in libraries]
        for name, case in cases.items()
    }


def heard_table(results: Mapping[str, list[Heard]], libraries=("Keras 2", "Keras 3")) -> str:
    """A Markdown table of what was heard: results of `compare` -> rows of call and sentences."""
    lines = [f"| call | {' | '.join(libraries)} |", "|:--" * (1 + len(libraries)) + "|"]
    for name, heard in results.items():
        texts = [_escape(each.sentence) or "nothing" for each in heard]
        lines.append(f"| `{name}` | {' | '.join(texts)} |")
    return "\n".join(lines)


def plain_attention(keras, width):
    """A multi-head attention layer of that Keras: one head, whose projections do nothing.

    Its weights are the softmax of the inputs' own products over the root of `width`.
    """
    layer = keras.layers.MultiHeadAttention(num_heads=1, key_dim=width, use_bias=False)
    states = np.zeros((1, 1, width), dtype="float32")
    layer(states, states)
    unity = np.eye(width)
    layer.set_weights([unity[:, None]] * 3 + [unity[None]])
    return layer


@contextmanager
def _collected():
    """Log lines of the two libraries, kept from the screen meanwhile."""
    texts = []
    collector = logging.Handler(logging.WARNING)
    collector.emit = lambda record: texts.append(_plain(record.getMessage()))
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [collector], False
    try:
        yield texts
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate


def _plain(text):
    return " ".join(MARKS.sub("", COLOURS.sub("", text)).split())


def _escape(text):
    return re.sub(r"([\\*_\[\]<>|$^~@#])", r"\\\1", text)
