"""WordPiece: text into words, words into pieces of a fixed vocabulary, pieces into token ids.

Written out from BERT's published description (Devlin et al. 2019, arXiv:1810.04805, and its
repository's notes on tokenization). Where that leaves a choice it does as the tokenizer that is
shipped with today's checkpoints: each character is lower-cased alone, so a final Greek sigma stays
σ, special tokens written into a text are recognised, unassigned code points are kept. Unicode's
properties are those of this Python, and a character that is new to Unicode may count otherwise.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

PAD, UNK, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUED = "##"  # marks a piece that does not begin a word
LONGEST_WORD = 100  # characters; a longer word is [UNK]
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
# Chinese characters, not all of East Asia: Hangul and kana are written with words or as words.
_CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def clean(text):
    """Text without control characters, each white space a blank, blanks around Chinese ones."""
    return "".join(map(_clean, text))


def fold(text):
    """Text without accents (NFD, then no combining marks) and in lower case."""
    apart = unicodedata.normalize("NFD", text)
    return "".join(c.lower() for c in apart if unicodedata.category(c) != "Mn")


def split_words(text):
    """Cut at white space, and around each punctuation mark, which becomes a word: -> list."""
    return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()


class WordPiece:
    """The tokenizer of BERT for one vocabulary. Make it with `WordPiece.from_vocabulary`.

    Attributes:
        vocabulary: The pieces, a tuple; a piece's place is its id.
        ids: Dictionary of piece -> id.
        lower: Whether words lose their case and accents ("uncased").
    """

    def __init__(self, vocabulary, lower=True):
        self.vocabulary, self.lower = tuple(vocabulary), lower
        self.ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        if twice := [piece for piece, n in Counter(self.vocabulary).items() if n > 1]:
            raise ValueError(f"the vocabulary has {twice[0]!r} more than once")
        if missing := [token for token in SPECIAL if token not in self.ids]:
            raise ValueError(f"the vocabulary lacks {', '.join(missing)}")
        if self.ids[PAD] != 0:
            raise ValueError(f"{PAD} must have id 0, which means padding; it has {self.ids[PAD]}")

    @classmethod
    def from_vocabulary(cls, path_or_list, lower=True):
        """From a file with a piece a line, UTF-8, or from a list of pieces."""
        if isinstance(path_or_list, str | Path):
            text = Path(path_or_list).read_text(encoding="utf-8")
            # Not `splitlines`: a piece may be a character that it takes for the end of a line.
            path_or_list = text.removesuffix("\n").split("\n")
        return cls(path_or_list, lower=lower)

    def __len__(self):
        return len(self.vocabulary)

    def words(self, text):
        """Text -> list of words as they are looked up; special tokens in it stay whole."""
        if not isinstance(text, str):
            raise TypeError(f"text must be one string, got {type(text).__name__}")
        if surrogate := re.search("[\ud800-\udfff]", text):
            raise ValueError(f"text has a lone surrogate at {surrogate.start()}: not Unicode text")
        words = []
        for part in _SPECIAL.split(text):
            if part in SPECIAL:
                words.append(part)
            else:
                part = clean(part)
                words += split_words(fold(part) if self.lower else part)
        return words

    def attempts(self, word):
        """What is looked up for a word, in order: pairs of a piece and whether it is known.

        Longest match first: from where the last piece ended, the longest rest is tried, then one
        character less. When no piece begins there, the last pair is not known.
        """
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = CONTINUED * (start > 0) + word[start:end]
                yield piece, piece in self.ids
                if piece in self.ids:
                    start = end
                    break
            else:
                return

    def pieces(self, word):
        """Word -> list of its pieces, or [UNK] alone where they do not cover it to its end."""
        if word in SPECIAL:
            return [word]
        if len(word) > LONGEST_WORD:
            return [UNK]
        tried = list(self.attempts(word))
        return [piece for piece, known in tried if known] if tried[-1][1] else [UNK]

    def tokenize(self, text):
        """Text -> list of pieces, without [CLS] and [SEP]. An empty text has none."""
        return [piece for word in self.words(text) for piece in self.pieces(word)]

    def encode(self, text, pair=None, length=None):
        """Text, or two -> ids and segments, two lists of int.

        [CLS] text [SEP] is segment 0, pair [SEP] segment 1. With `length`, zeros fill up; what is
        longer is refused, since a cut would lose text and its [SEP] in silence.
        """
        first = [CLS, *self.tokenize(text), SEP]
        second = [] if pair is None else [*self.tokenize(pair), SEP]
        ids = [self.ids[piece] for piece in first + second]
        segments = [0] * len(first) + [1] * len(second)
        if length is None:
            return ids, segments
        if len(ids) > length:
            raise ValueError(f"text has {len(ids)} tokens, more than length {length}")
        rest = [0] * (length - len(ids))
        return ids + rest, segments + rest

    def batch(self, texts, length=None):
        """Texts -> ids and segments, int32 (texts, length), zeros at the end.

        Without `length`, the longest text's.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of strings, got one string")
        if not len(texts):
            raise ValueError("texts must hold at least one text")
        rows = [self.encode(text)[0] for text in texts]
        longest = max(map(len, rows))
        length = longest if length is None else length
        if longest > length:
            row = next(number for number, ids in enumerate(rows) if len(ids) > length)
            raise ValueError(f"text {row} has {len(rows[row])} tokens, more than length {length}")
        ids = np.zeros((len(rows), length), dtype=np.int32)
        for row, filled in zip(rows, ids, strict=True):
            filled[: len(row)] = row
        return ids, np.zeros_like(ids)

    def decode(self, ids):
        """Ids -> text: pieces joined to words, a blank between words; no [PAD], [CLS], [SEP].

        Case, accents, spacing, and what [UNK] stood for are lost.
        """
        pieces = [self.vocabulary[number] for number in ids]
        text = " ".join(piece for piece in pieces if piece not in (PAD, CLS, SEP))
        return text.replace(f" {CONTINUED}", "")


def learn_vocabulary(texts, size, lower=True):
    """A vocabulary of `size` pieces from texts: -> list, special tokens first.

    It starts from all characters, at the beginning of a word and inside one, and adds the most
    frequent pair of neighbouring pieces as one piece, again and again: byte-pair encoding
    (Sennrich et al. 2016, arXiv:1508.07909). How BERT's own vocabulary was learned is unpublished;
    Schuster and Nakajima (2012) choose the pair that raises the likelihood most. Ties go to the
    pair that sorts first.
    """
    tokenizer = WordPiece(SPECIAL, lower=lower)
    counts = Counter(word for text in texts for word in tokenizer.words(text))
    counts = {word: n for word, n in counts.items() if word not in SPECIAL}
    split = {word: [word[0], *(CONTINUED + c for c in word[1:])] for word in counts}
    vocabulary = [*SPECIAL, *sorted({piece for pieces in split.values() for piece in pieces})]
    if len(vocabulary) > size:
        raise ValueError(f"size {size} is below the {len(vocabulary)} tokens to start from")
    totals, places = Counter(), defaultdict(set)
    for word, pieces in split.items():
        for pair in _pairs(pieces):
            totals[pair] += counts[word]
            places[pair].add(word)
    known = set(vocabulary)
    while len(vocabulary) < size and totals:
        most = max(totals.values())
        if most < 1:
            break
        best = min(pair for pair, total in totals.items() if total == most)
        joined = best[0] + best[1].removeprefix(CONTINUED)
        if joined not in known:
            known.add(joined)
            vocabulary.append(joined)
        for word in places.pop(best):
            for pair in _pairs(split[word]):
                totals[pair] -= counts[word]
            split[word] = _join(split[word], best, joined)
            for pair in _pairs(split[word]):
                totals[pair] += counts[word]
                places[pair].add(word)
        totals.pop(best, None)
    return vocabulary


def _clean(c):
    if c in "\t\n\r" or unicodedata.category(c)[0] == "Z":
        return " "
    if c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co"):
        return ""
    code = ord(c)
    return f" {c} " if any(low <= code <= high for low, high in _CHINESE) else c


def _is_punctuation(c):
    # ASCII's marks all count, also those that Unicode calls symbols, such as $ and ^.
    return unicodedata.category(c)[0] == "P" or (c in "$+<=>^`|~")


def _pairs(pieces):
    return list(pairwise(pieces))


def _join(pieces, pair, joined):
    out = []
    for piece in pieces:
        if out and (out[-1], piece) == pair:
            out[-1] = joined
        else:
            out.append(piece)
    return out
