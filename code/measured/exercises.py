"""An exercise's answer as Markdown that the page's script, media/site/exercises.js, checks.

Nothing is computed here. What the script needs stands in `data-` attributes of one div, which
pandoc passes on unchanged; without a script the page shows the sentence in the div. An answer is
refused when a reader could not be told what went wrong: without hints, or where two look alike.
"""

import math
import re

import numpy as np

# Kind -> what the reader is asked for; {n} is how many numbers, or options, there are.
KINDS = {
    "number": "A number.",
    "count": "A whole number.",
    "vector": "A list of {n} numbers.",
    "shape": "A shape: a list of whole numbers.",
    "yes-no": "Yes or no?",
    "choice": "One of {n}:",
}
WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
UNSAFE = re.compile(r'["\\\n{}<>]')  # would end the attribute, or be read as markup


def exercise(name, kind, answer, *, hints, slips=None, within=0.0, choices=()):
    """The div that the script turns into a form: -> Markdown.

    Args:
        name: lower-case kebab; the ledger's entry of the answer is `ex-` and the name.
        kind: a key of KINDS. A choice is answered by the place of an option, from 1.
        answer: number, truth, or sequence of numbers.
        hints: what a wrong answer is told first, and then; one is enough for yes-no and choice.
        slips: what went wrong -> the value that this slip gives.
        within: how far a right answer may stray, absolute and for each number; above 0 for numbers
            that are not whole.
        choices: the options of a choice.

    Raises:
        ValueError: for an answer without hints, for a slip that gives the right answer, for two
            slips that give one value.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"name must be lower-case words joined by hyphens, got {name!r}")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    right = _numbers(name, kind, answer)
    slips = {text: _numbers(name, kind, value) for text, value in (slips or {}).items()}
    _check_hints(name, kind, hints)
    _check_within(name, kind, within)
    _check_choices(name, kind, right, choices)
    if kind == "vector" and any(len(value) != len(right) for value in slips.values()):
        raise ValueError(f"{name}: a slip must give {len(right)} numbers, as the answer has")
    _refuse_lookalikes(name, {"the right answer": right, **slips}, within)
    attributes = {
        "data-ledger": f"ex-{name}",
        "data-kind": kind,
        "data-answer": _written(right),
        "data-within": f"{within:g}",
    }
    attributes |= {f"data-hint-{i}": text for i, text in enumerate(hints, 1)}
    for i, (text, value) in enumerate(slips.items(), 1):
        attributes |= {f"data-slip-{i}": text, f"data-slip-{i}-value": _written(value)}
    written = " ".join(f'{key}="{_attribute(name, text)}"' for key, text in attributes.items())
    count = len(choices) or len(right)
    said = KINDS[kind].format(n=WORDS.get(count, count))
    if kind == "choice":
        said = f"{said}\n\n" + "\n".join(f"{i}. {text}" for i, text in enumerate(choices, 1))
    return f"::: {{#answer-{name} .exercise-check {written}}}\n{said}\n:::"


def _numbers(name, kind, value):
    """Value as a list of finite numbers, whole ones where the kind wants them."""
    value = np.asarray(value)
    if (kind == "yes-no") != (value.dtype == bool):
        raise TypeError(f"{name}: {kind} got {value.dtype} for an answer")
    if value.ndim != (kind in ("vector", "shape")):
        raise ValueError(f"{name}: {kind} got an answer of shape {value.shape}")
    numbers = [float(number) for number in np.atleast_1d(value)]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name}: an answer must be finite, got {numbers}")
    if kind in ("count", "shape", "choice") and not all(n.is_integer() for n in numbers):
        raise ValueError(f"{name}: {kind} takes whole numbers, got {numbers}")
    return numbers


def _check_hints(name, kind, hints):
    enough = 1 if kind in ("yes-no", "choice") else 2
    if isinstance(hints, str) or len(hints) < enough:
        raise ValueError(f"{name}: {kind} needs {enough} hints, each stronger than the one before")


def _check_within(name, kind, within):
    if within < 0 or not math.isfinite(within):
        raise ValueError(f"{name}: within must be finite and not negative, got {within}")
    if (kind in ("number", "vector")) != (within > 0):
        raise ValueError(f"{name}: within is for number and vector, which need it; got {within}")


def _check_choices(name, kind, right, choices):
    if (kind == "choice") != bool(choices):
        raise ValueError(f"{name}: choices belong to a choice, and to nothing else")
    if choices and not 1 <= right[0] <= len(choices):
        raise ValueError(f"{name}: there are {len(choices)} choices, the answer is {right[0]:g}")


def _refuse_lookalikes(name, answers, within):
    """Two answers must be further apart than what a reader may be off from both."""
    texts = list(answers)
    for i, text in enumerate(texts):
        for other in texts[i + 1 :]:
            a, b = answers[text], answers[other]
            if len(a) == len(b) and np.max(np.abs(np.subtract(a, b))) <= 2 * within:
                raise ValueError(f"{name}: {text!r} and {other!r} both give {_written(a)}")


def _written(numbers):
    return " ".join(f"{int(n)}" if n.is_integer() else f"{n:.10g}" for n in numbers)


def _attribute(name, text):
    if not text.strip() or UNSAFE.search(text):
        raise ValueError(f"{name}: {text!r} is empty, or holds what would end an attribute")
    return text
