"""Dates as people write them, in six languages, and the same dates in ISO 8601.

Month and weekday names and the order of the parts come from the CLDR through Babel. Every style
names its month: 3/9/87 is two dates, "9. märz 1987" is one. Lower case throughout.
"""

import datetime
import re
from dataclasses import dataclass
from functools import cache

import keras
import numpy as np
from babel import Locale
from babel.dates import parse_pattern
from keras import ops

from measured.decoding import greedy_decode
from measured.training import (
    MaskedAccuracy,
    MaskedCrossEntropy,
    WarmupSchedule,
    exact_match,
    shift_right,
)
from measured.transformer import Transformer

LANGUAGES = ("de", "en", "es", "fr", "id", "nl")
# CLDR's names: y year, MMM mar, MMMM march, E mon, d day; "full" has monday.
STYLES = ("yMMMd", "yMMMMd", "yMMMEd", "yMMMMEd", "full")
TEXT_CHARACTERS = " ,.0123456789abcdefghijklmnoprstuvwyzáäéû"
ISO_CHARACTERS = "-0123456789"
TEXT_LENGTH = 35  # "miércoles, 14 de septiembre de 2011"
ISO_LENGTH = 10
PAD, START, END = 0, 1, 2  # characters count from 3
SPECIALS = 3
PARTS = ("rest", "year", "month", "day")
# Which rows of the decoder's output say which part of YYYY-MM-DD.
ISO_ROWS = {"year": (0, 1, 2, 3), "month": (5, 6), "day": (8, 9)}
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


@dataclass(frozen=True)
class Dates:
    """Pairs of a text and its date: sources (pairs, 35) and targets (pairs, 12), token ids int32.

    A target is start, ten characters, end; a source has neither, and padding after it.
    """

    texts: tuple[str, ...]
    isos: tuple[str, ...]
    languages: tuple[str, ...]
    styles: tuple[str, ...]
    sources: np.ndarray
    targets: np.ndarray

    def __len__(self):
        return len(self.texts)


def write_date(date, language, style):
    """A datetime.date as text, in lower case."""
    return _pattern(language, style).apply(date, _locale(language)).lower()


def date_splits(seed, training=64_000, validation=1_000, test=2_000):
    """Pairs for training, validation and test: three `Dates`.

    The days of 1900 to 2099 are shuffled; the first are for test and validation, each written
    once, and training draws from all others, with replacement. So a date of one split is in no
    other, in no language. Language and style are drawn evenly, and apart from the date.
    """
    days = (LAST_DAY - FIRST_DAY).days + 1
    if min(training, validation, test) < 1 or validation + test >= days:
        raise ValueError(
            f"training {training}, validation {validation}, test {test}: each needs 1 or more, "
            f"and the last two must leave some of {days} days"
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(days)
    drawn = order[validation + test :][rng.integers(days - validation - test, size=training)]
    return (
        _write_days(drawn, rng),
        _write_days(order[:validation], rng),
        _write_days(order[validation : validation + test], rng),
    )


def encode_texts(texts):
    """Token ids of texts: -> int32 (texts, 35), padding after each."""
    return _encode(texts, TEXT_CHARACTERS, TEXT_LENGTH)


def encode_isos(isos):
    """Token ids of ISO dates: -> int32 (isos, 12), start and end included."""
    ids = np.zeros((len(isos), ISO_LENGTH + 2), dtype=np.int32)
    ids[:, 0], ids[:, -1] = START, END
    ids[:, 1:-1] = _encode(isos, ISO_CHARACTERS, ISO_LENGTH)
    return ids


def decode_isos(tokens):
    """Texts of token ids (batch, any length), read up to the first end; start and padding drop."""
    texts = []
    for row in np.asarray(tokens):
        ends = np.flatnonzero(row == END)
        row = row[: ends[0]] if ends.size else row
        texts.append("".join(ISO_CHARACTERS[i - SPECIALS] for i in row if i >= SPECIALS))
    return texts


@dataclass(frozen=True)
class DateRun:
    """One training on dates. History: name -> one value an epoch of 100 steps."""

    model: Transformer
    history: dict[str, list[float]]
    test: Dates
    predicted: np.ndarray  # (test pairs, 11), token ids after the start
    exact_match: float


def date_model(seed):
    """A Transformer for dates, of one encoder and one decoder layer, before any training."""
    keras.utils.set_random_seed(seed)
    model = Transformer(
        SPECIALS + len(TEXT_CHARACTERS),
        SPECIALS + len(ISO_CHARACTERS),
        num_layers=1,
        d_model=64,
        num_heads=4,
        d_ff=128,
        dropout=0.0,
        norm="pre",
        max_length=TEXT_LENGTH,
    )
    model.build(((None, TEXT_LENGTH), (None, ISO_LENGTH + 1)))
    return model


class CooledSchedule(WarmupSchedule):
    """`WarmupSchedule`, brought down to zero in a line over the last `cooling_steps` of `steps`."""

    def __init__(self, d_model, warmup_steps, steps, cooling_steps):
        super().__init__(d_model, warmup_steps)
        if not 1 <= cooling_steps <= steps:
            raise ValueError(f"cooling_steps must be in 1..{steps}, got {cooling_steps}")
        self.steps, self.cooling_steps = steps, cooling_steps

    def __call__(self, step):
        left = (self.steps - ops.cast(step, "float32")) / self.cooling_steps
        return super().__call__(step) * ops.clip(left, 0, 1)

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "steps": self.steps,
            "cooling_steps": self.cooling_steps,
        }


def train_dates(seed, steps=1_000, batch_size=64):
    """Train `date_model` to write dates as ISO 8601: -> DateRun.

    Every pair is seen once. Adam as in Vaswani et al., section 5.3, but for the last 0.3 of the
    steps, over which the rate comes down to zero: at a high rate the last steps decide by chance
    how good the model is, and the paper averages checkpoints against that (section 6.1).
    """
    if steps < 100 or steps % 100:
        raise ValueError(f"steps must be a multiple of 100, got {steps}")
    training, validation, test = date_splits(seed, training=steps * batch_size)
    model = date_model(seed)
    optimizer = keras.optimizers.Adam(
        CooledSchedule(model.decoder.embedding.d_model, 200, steps, cooling_steps=3 * steps // 10),
        beta_2=0.98,
        epsilon=1e-9,
    )
    model.compile(
        optimizer,
        MaskedCrossEntropy(smoothing=0.1),
        metrics=[MaskedAccuracy()],
    )
    history = model.fit(
        *_teach(training),
        validation_data=_teach(validation),
        batch_size=batch_size,
        epochs=steps // 100,
        steps_per_epoch=100,
        shuffle=False,  # the pairs were drawn in random order
        verbose=0,
    ).history
    predicted = greedy_decode(model, test.sources, START, END, ISO_LENGTH + 1)
    return DateRun(model, history, test, predicted, exact_match(predicted, test.targets[:, 1:]))


def attention_shares(model, dates, layer=1):
    """Where the decoder looks when it writes: -> (3, 4), each row summing to 1.

    Rows: the digits of year, month and day. Columns: `PARTS` of the source. Means over heads,
    over the digits and over the pairs, of the weights of one layer's cross-attention.
    """
    given, _ = shift_right(dates.targets)
    _, weights = model((dates.sources, given), return_attention_scores=True)
    weights = np.mean(weights[f"decoder_layer{layer}_cross_attention"], axis=1)
    parts = np.eye(len(PARTS))[source_parts(dates)]
    shares = np.einsum("pts,psk->tk", weights, parts) / len(dates)
    return np.stack([shares[list(rows)].mean(axis=0) for rows in ISO_ROWS.values()])


def _teach(dates):
    """What `fit` wants: ((sources, given tokens), wanted tokens)."""
    given, wanted = shift_right(dates.targets)
    return (dates.sources, given), wanted


def _write_days(days, rng):
    """Days after the first as `Dates`, each in a language and a style of its own."""
    languages = [LANGUAGES[i] for i in rng.integers(len(LANGUAGES), size=len(days))]
    styles = [STYLES[i] for i in rng.integers(len(STYLES), size=len(days))]
    dates = [FIRST_DAY + datetime.timedelta(days=day) for day in days.tolist()]
    texts = tuple(map(write_date, dates, languages, styles))
    isos = tuple(date.isoformat() for date in dates)
    sources, targets = encode_texts(texts), encode_isos(isos)
    return Dates(texts, isos, tuple(languages), tuple(styles), sources, targets)


def _encode(texts, characters, length):
    ids = np.zeros((len(texts), length), dtype=np.int32)
    index = {character: number for number, character in enumerate(characters, SPECIALS)}
    for row, text in enumerate(texts):
        if len(text) > length:
            raise ValueError(f"text {row} has {len(text)} characters, more than {length}: {text!r}")
        for column, character in enumerate(text):
            if character not in index:
                raise LookupError(f"text {row}: {character!r} in {text!r} is none of {characters}")
            ids[row, column] = index[character]
    return ids


def source_parts(dates):
    """Which part of the date each source character belongs to: -> (pairs, 35), index of PARTS.

    The weekday, words between, punctuation and padding are the rest.
    """
    parts = np.zeros(dates.sources.shape, dtype=np.int32)
    for row, text in enumerate(dates.texts):
        date = datetime.date.fromisoformat(dates.isos[row])
        month = _month(date, dates.languages[row], dates.styles[row])
        # The last one: "mar, 9 mar 1987" is a Tuesday in March.
        first = text.rindex(month)
        spans = {"month": (first, first + len(month))}
        for digits in re.finditer(r"\d+", text):
            spans["year" if len(digits[0]) == 4 else "day"] = digits.span()
        for part, (first, last) in spans.items():
            parts[row, first:last] = PARTS.index(part)
    return parts


def _month(date, language, style):
    """The name of the month as `write_date` writes it."""
    width = "MMMM" if "MMMM" in _pattern(language, style).pattern else "MMM"
    return parse_pattern(width).apply(date, _locale(language)).lower()


@cache
def _locale(language):
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}; got {language!r}")
    return Locale.parse(language)


@cache
def _pattern(language, style):
    if style not in STYLES:
        raise ValueError(f"style must be one of {', '.join(STYLES)}; got {style!r}")
    locale = _locale(language)
    return locale.date_formats["full"] if style == "full" else locale.datetime_skeletons[style]
