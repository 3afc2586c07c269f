"""Numbers in words: which values `ninefold`, `nearly two thirds` or `half a percent` allow.

    ninefold, twice, three times, a dozen              the number itself
    a third, two fifths, one and a half, half          fractions
    half a percent, three percent                      hundredths
    an order of magnitude, two orders of magnitude     powers of ten
    about, roughly, around, close to, some             within 15 % of the number
    nearly, almost, just under, a little less than     up to 15 % below it
    just over, a little more than, slightly more than  up to 15 % above it
    at least, at most, more than, less than, up to     an inequality

Without such a word a value may differ by 5 %; by half a unit of the last digit where digits are
written; from orders of magnitude by half of one. A count that the ledger holds as exact must be
the very number. Words carry no sign: they are compared with the size of the value. Standard
library only, since Quarto's hook imports it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BARE, ABOUT = 0.05, 0.15
UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL = {word: number for number, word in enumerate(UNITS.split())}
SMALL |= {word: 10 * number for number, word in enumerate(TENS.split(), 2)}
ARTICLES = {"a": 1, "an": 1}
LARGE = {"thousand": 1000, "million": 10**6, "billion": 10**9}
PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7,
         "eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "twentieth": 20, "hundredth": 100,
         "thousandth": 1000, "tenthousandth": 10**4, "millionth": 10**6}  # fmt: skip
FACTORS = {"once": 1, "twice": 2, "thrice": 3, "double": 2, "doubles": 2, "doubled": 2,
           "triple": 3, "triples": 3, "tripled": 3, "quadruple": 4, "quadruples": 4,
           "quadrupled": 4, "half": 0.5, "halves": 0.5, "halved": 0.5, "none": 0,
           "nothing": 0}  # fmt: skip
# Words before a number -> its lowest and highest value, in units of the number, and which of the
# two ends is outside.
HEDGES = {
    "about|around|roughly|approximately|some|close to|near": (1 - ABOUT, 1 + ABOUT, ""),
    "nearly|almost|just under|just below|a little under|a little less than|not quite|slightly less "
    "than": (1 - ABOUT, 1, "high"),
    "just over|just above|a little over|a little more than|slightly more than|slightly over|a "
    "good": (1, 1 + ABOUT, "low"),
    "at least|no less than|no fewer than": (1, math.inf, ""),
    "over|above|more than|well over": (1, math.inf, "low"),
    "at most|no more than": (0, 1, ""),
    "up to": (1 - ABOUT, 1, ""),
    "under|below|less than|fewer than|well under": (0, 1, "high"),
}
HEDGE = {word: band for words, band in HEDGES.items() for word in words.split("|")}
WRITTEN = re.compile(r"[-−]?(\d+(?:,\d{3})*)(\.\d+)?")


@dataclass(frozen=True)
class Interval:
    """Where a value must lie: from low to high, without an end that is `outside`."""

    low: float
    high: float
    outside: str = ""
    count: int | None = None  # a whole number that stands without a hedge

    def holds(self, value: float, exact: bool = False) -> bool:
        """Whether the words allow `value`; an `exact` count must be the number that they name."""
        size = abs(value)
        if exact and self.count is not None:
            return size == self.count
        above = size > self.low if self.outside == "low" else size >= self.low
        below = size < self.high if self.outside == "high" else size <= self.high
        return above and below

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{'more than' if self.outside else 'at least'} {self.low:.6g}"
        if self.low == 0:
            return f"{'less than' if self.outside else 'at most'} {self.high:.6g}"
        return f"{self.low:.6g} to {self.high:.6g}"


def interval_of(text: str) -> Interval:
    """The values that `text` allows. Raises ValueError for words that are no number."""
    words = re.sub(r"\s+", " ", text.strip().lower())
    hedge = next((h for h in sorted(HEDGE, key=len, reverse=True) if words.startswith(h + " ")), "")
    found = _number(words[len(hedge) :].strip())
    if found is None:
        raise ValueError(f"`{text}` is no number in words that this build knows")
    value, low, high, count = found
    if not hedge:
        return Interval(low, high, count=count)
    down, up, outside = HEDGE[hedge]
    return Interval(value * down, math.inf if up == math.inf else value * up, outside)


def disagreement(
    text: str, claim: str, over: str, at: str, values: Mapping[str, Any], exact: bool
) -> str | None:
    """What is wrong with words that rest on `values` by id, or None: see `bookbuild.worded`."""
    if not claim:
        return f'"{text}" is marked as worded, but names no data-claim'
    for id in filter(None, (claim, over)):
        if id not in values:
            return f'"{text}" rests on {id}, which the ledger does not have'
    try:
        allowed = interval_of(text)
        numbers = [*_pick(values[claim], at)]
        below = [*_pick(values[over], "")] if over else [1.0]
    except (ValueError, LookupError, TypeError) as error:
        return f"{claim}: {error.args[0] if error.args else error}"
    if len(below) != 1 or below[0] == 0:
        return f"{over} is no single number to divide by"
    for number in numbers:
        value = number / below[0]
        if not allowed.holds(value, exact and number == int(number)):
            what = f"{claim} / {over}" if over else claim
            return f'"{text}" means {allowed}, but {what} is {value:.6g}'
    return None


def _pick(value: Any, at: str) -> Iterator[float]:
    """The numbers of an array, or the one at a place such as `2` or `1,0`."""
    for index in filter(None, at.split(",")):
        if not isinstance(value, list):
            raise ValueError(f"data-at={at} goes deeper than the value")
        value = value[int(index)]
    if isinstance(value, list):
        for one in value:
            yield from _pick(one, "")
    elif isinstance(value, bool | str):
        raise ValueError(f"words state a number, the entry holds {value!r}")
    else:
        yield value


def _number(words: str) -> tuple[float, float, float, int | None] | None:
    """The number, the lowest and highest value it stands for by itself, and it again if whole."""
    words = re.sub(r" (?:times(?: as(?: \w+)?)?|as(?: \w+)?|of)$", "", words)
    if magnitude := re.fullmatch(r"(.+) orders? of magnitude", words):
        orders = _cardinal(magnitude[1])
        return orders and (10.0**orders, 10 ** (orders - 0.5), 10 ** (orders + 0.5), None)
    unit = 1.0
    if percent := re.fullmatch(r"(.+?)(?: of)?(?: an?| one)? ?(?:percent|per cent|%)", words):
        unit, words = 0.01, percent[1]
    if written := WRITTEN.fullmatch(words):
        value = float(written[0].replace(",", "").replace("−", "-").lstrip("-"))
        half = 0.5 * 10.0 ** -len((written[2] or ".")[1:]) + 1e-9 * value
        count = int(value) if unit == 1 and not written[2] else None
        return value * unit, (value - half) * unit, (value + half) * unit, count
    count = _cardinal(words)
    value = _value(words) if count is None else count
    if value is None:
        return None
    value *= unit
    return value, value * (1 - BARE), value * (1 + BARE), count if unit == 1 else None


def _value(words: str) -> float | None:
    """A factor or a fraction: `twice`, `ninefold`, `two thirds`, `one and a half`."""
    if words in FACTORS:
        return FACTORS[words]
    if fold := re.fullmatch(r"(.+?)[- ]?fold", words):
        return _cardinal(fold[1])
    if half := re.fullmatch(r"half an? (dozen|hundred|thousand|million|billion)", words):
        return _cardinal("a " + half[1]) / 2
    whole, _, part = words.rpartition(" and ")
    part = part.replace("ten-thousandth", "tenthousandth").replace("-", " ")
    count, _, name = part.rpartition(" ")
    parts = PARTS.get(name.removesuffix("s"))
    number = _cardinal(count or "a") if parts else None
    if number is None or (number == 1) == name.endswith("s"):
        return None
    rest = _cardinal(whole) if whole else 0
    return None if rest is None else rest + number / parts


def _cardinal(words: str) -> int | None:
    """`twenty-five`, `a hundred and ten`, `two dozen`; None for what is no whole number."""
    if words in ARTICLES:
        return 1
    total, current, last = 0, 0, ""
    for word in re.split(r"[ -]", words):
        after_tens = last in TENS.split() and SMALL.get(word, 10) < 10
        if word in SMALL and (after_tens or last not in SMALL | ARTICLES):
            current += SMALL[word]
        elif word in ARTICLES and not last:
            current = 1
        elif word in ("dozen", "hundred"):
            current = (current or 1) * (12 if word == "dozen" else 100)
        elif word in LARGE:
            total, current = total + (current or 1) * LARGE[word], 0
        elif word != "and" or not last:
            return None
        last = word
    return None if last == "and" else total + current
