"""Passages of Shakespeare's plays, split into folds, and words as token ids.

A play has one genre, that of the First Folio (1623), and gives many passages. So a split by
passage puts every play on both sides; a split by play does not. Ids as in Keras's
`TextVectorization`: 0 is padding, 1 an unknown word, words count from 2.
"""

import csv
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from measured.costs import find_data

DATA = Path("media/data/shakespeare_genre.tsv")
COLUMNS = ["play", "genre", "act", "scene", "text"]
GENRES = ("comedy", "history", "tragedy")  # the order of the classes, everywhere
NUM_FOLDS = 5
PAD, UNKNOWN = 0, 1
SPECIALS = ("", "[UNK]")
# What TextVectorization strips: all ASCII punctuation, the apostrophe too.
PUNCTUATION = re.compile(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']")


@dataclass(frozen=True)
class Passages:
    """Passages in the order of the file; labels (passages,) int32, index of GENRES."""

    plays: np.ndarray
    labels: np.ndarray
    texts: tuple[str, ...]
    sha256: str  # of the file

    def __len__(self):
        return len(self.texts)

    def select(self, rows):
        """The texts of these rows."""
        return [self.texts[row] for row in rows]


@dataclass(frozen=True)
class Fold:
    """Row numbers of training, validation and test, each sorted."""

    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def seen(self):
        """Training and validation: all that may be looked at before the test."""
        return np.union1d(self.training, self.validation)


def read_passages(path=None):
    """Read the file shipped with the book, or another of its form: -> Passages."""
    path = find_data(DATA) if path is None else Path(path)
    with path.open("rb") as file:
        content = file.read().replace(b"\r\n", b"\n")
    lines = content.decode("utf-8").removesuffix("\n").split("\n")
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != COLUMNS:
        raise ValueError(f"{path}:1: expected the columns {', '.join(COLUMNS)}")
    genre_of, first_line = {}, {}
    for number, row in enumerate(rows[1:], 2):
        where = f"{path}:{number}"
        if len(row) != len(COLUMNS):
            raise ValueError(f"{where}: expected {len(COLUMNS)} columns, got {len(row)}")
        play, genre, *_, text = row
        if genre not in GENRES:
            raise ValueError(f"{where}: genre must be one of {', '.join(GENRES)}; got {genre!r}")
        if genre_of.setdefault(play, genre) != genre:
            raise ValueError(f"{where}: {play} is a {genre} here and a {genre_of[play]} before")
        # One passage twice could be in training and in test.
        if first_line.setdefault(text, number) != number:
            raise ValueError(f"{where}: the same text already stands in line {first_line[text]}")
    if len(rows) == 1:
        raise ValueError(f"{path}: has no passages")
    return Passages(
        np.array([row[0] for row in rows[1:]]),
        np.array([GENRES.index(row[1]) for row in rows[1:]], dtype=np.int32),
        tuple(row[-1] for row in rows[1:]),
        hashlib.sha256(content).hexdigest(),
    )


def folds_by_play(passages, seed=0):
    """Five folds in which all passages of a play are on one side: -> list of Fold.

    The genres are spread as evenly as whole plays allow. One more such split takes the validation
    part from the plays that are not in the test.
    """
    return _folds(StratifiedGroupKFold, passages.labels, passages.plays, seed)


def folds_by_passage(passages, seed=0):
    """Five folds drawn by passage, the validation part too: every play is on all sides."""
    return _folds(StratifiedKFold, passages.labels, None, seed)


def shared_plays(passages, rows, others):
    """Plays that have passages in both parts, in alphabetical order."""
    return sorted(set(passages.plays[rows].tolist()) & set(passages.plays[others].tolist()))


def standardize(text):
    """Lower case without punctuation, as Keras's TextVectorization makes it."""
    return PUNCTUATION.sub("", text.lower())


class Vocabulary:
    """Words by their ids. Made by `adapt` from the texts a model may learn from, and no others."""

    def __init__(self, words):
        words = tuple(words)
        if words[:2] != SPECIALS:
            raise ValueError(f"a vocabulary begins with {SPECIALS}, got {words[:2]}")
        if len(set(words)) < len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(f"a vocabulary holds each word once, got {twice!r} twice")
        self.words = words
        self._ids = {word: number for number, word in enumerate(words) if number > UNKNOWN}

    @classmethod
    def adapt(cls, texts, size=5_000):
        """The most frequent words, at most `size` with the two specials.

        Of equally frequent words the alphabetically last comes first: so does TextVectorization.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of strings, got one string")
        counts = Counter(word for text in texts for word in standardize(text).split())
        ordered = sorted(counts, key=lambda word: (counts[word], word), reverse=True)
        return cls(SPECIALS + tuple(ordered[: size - len(SPECIALS)]))

    def __len__(self):
        return len(self.words)

    def encode(self, texts, length):
        """Token ids with zeros after them: -> int32 (texts, length).

        Refuses a text without words, and one that is longer: TextVectorization cuts in silence.
        """
        ids = np.zeros((len(texts), length), dtype=np.int32)
        for row, text in enumerate(texts):
            found = [self._ids.get(word, UNKNOWN) for word in standardize(text).split()]
            if not 1 <= len(found) <= length:
                raise ValueError(f"text {row} has {len(found)} words, expected 1 to {length}")
            ids[row, : len(found)] = found
        return ids

    def sha256(self):
        """Digest of words and order: two vocabularies are the same if theirs are."""
        return hashlib.sha256("\n".join(self.words).encode("utf-8")).hexdigest()


def unknown_share(tokens):
    """Share of the real tokens that are unknown words."""
    tokens = np.asarray(tokens)
    return float(np.sum(tokens == UNKNOWN) / np.sum(tokens != PAD))


def _folds(splitter, labels, groups, seed):
    def split(rows):
        parts = splitter(NUM_FOLDS, shuffle=True, random_state=seed)
        chosen = None if groups is None else groups[rows]
        return [(rows[a], rows[b]) for a, b in parts.split(rows, labels[rows], chosen)]

    found = []
    for seen, test in split(np.arange(len(labels))):
        training, validation = split(seen)[0]
        found.append(Fold(training, validation, test))
    return found
