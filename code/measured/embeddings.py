"""Word vectors from files in GloVe's text format, and sentences as rows of token ids.

A line of the format is a word and its components, separated by single spaces. Source: Pennington
et al. (2014). Id 0 is kept free for padding; words count from 1.
"""

import os
from collections import Counter
from difflib import get_close_matches
from pathlib import Path

import numpy as np

SUBSET = Path("media/data/glove.6B.100d.subset.txt")
PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def load_glove(path=None, words=None, dimensions=100):
    """Read vectors: -> dict of word -> float32 (dimensions,), in the file's order.

    Without a path it reads the file that GLOVE_PATH names, or else the subset shipped with the
    book. With words, reading stops at the last of them, and other words' numbers are not looked
    at. A word the file lacks is a LookupError: no word gets zeros in silence.
    """
    path = glove_path() if path is None else Path(path)
    wanted = None if words is None else set(words)
    vectors, lines, seen = {}, {}, []
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            word, _, numbers = line.rstrip("\r\n").partition(" ")
            seen.append(word)
            if wanted is not None and word not in wanted:
                continue
            where = f"{path}:{number}"
            if word in vectors:
                raise ValueError(f"{where}: {word!r} already stands in line {lines[word]}")
            vectors[word] = _vector(numbers, dimensions, where)
            lines[word] = number
            if wanted is not None and len(vectors) == len(wanted):
                return vectors
    if not seen:
        raise ValueError(f"{path}: is empty; expected a word and {dimensions} numbers a line")
    for word in sorted(wanted or ()):
        if word not in vectors:
            raise LookupError(f"{path}: no vector for {word!r}{_near(word, seen)}")
    return vectors


def glove_path():
    """The file that GLOVE_PATH names, or else the shipped subset, from any working directory."""
    if named := os.environ.get("GLOVE_PATH"):
        if not Path(named).is_file():
            raise FileNotFoundError(f"GLOVE_PATH names {named}, which is not a file")
        return Path(named)
    starts = [Path.cwd(), Path(__file__).resolve().parent]
    if root := os.environ.get("QUARTO_PROJECT_ROOT"):
        starts.insert(0, Path(root))
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / SUBSET).is_file():
                return folder / SUBSET
    looked = ", ".join(map(str, starts))
    raise FileNotFoundError(
        f"{SUBSET.as_posix()} is in none of these folders or their parents: {looked}; "
        "set QUARTO_PROJECT_ROOT to the book's folder, or GLOVE_PATH to a file of vectors"
    )


def tokenize(text):
    """Lower-case words of a text; punctuation separates words, an apostrophe does not."""
    return text.lower().translate(PUNCTUATION).split()


def word_index(texts):
    """Number words from 1: -> dict of word -> id. Frequent words first, ties by first use."""
    if isinstance(texts, str):
        raise TypeError("texts must be a list of strings, got one string")
    counts = Counter(word for text in texts for word in tokenize(text))
    return {word: number for number, (word, _) in enumerate(counts.most_common(), 1)}


def pad_texts(texts, index, length):
    """Token ids with zeros after them: texts and word_index -> int32 (texts, length).

    Refuses what Keras's pad_sequences does in silence: cutting a long text, dropping a word.
    """
    ids = np.zeros((len(texts), length), dtype=np.int32)
    for row, text in enumerate(texts):
        tokens = tokenize(text)
        if len(tokens) > length:
            raise ValueError(f"text {row} has {len(tokens)} words, more than length {length}")
        for column, word in enumerate(tokens):
            if word not in index:
                raise LookupError(f"text {row}: {word!r} has no id{_near(word, index)}")
            ids[row, column] = index[word]
    return ids


def embedding_matrix(index, vectors):
    """Vectors by token id: -> float32 (words + 1, dimensions). Row 0, padding, is zeros."""
    if not index:
        raise ValueError("index has no words")
    for word in index:
        if word not in vectors:
            raise LookupError(f"no vector for {word!r}{_near(word, vectors)}")
    if sorted(index.values()) != list(range(1, len(index) + 1)):
        raise ValueError(f"ids must be 1 to {len(index)}, each once; 0 is padding")
    rows = np.stack([vectors[word] for word in sorted(index, key=index.get)])
    return np.vstack([np.zeros_like(rows[:1]), rows])


def _vector(numbers, dimensions, where):
    fields = numbers.split(" ") if numbers else []
    if len(fields) != dimensions:
        raise ValueError(
            f"{where}: expected a word and {dimensions} numbers, got {len(fields)} numbers"
        )
    try:
        vector = np.array(list(map(float, fields)))
    except ValueError:
        bad = next(field for field in fields if not _is_number(field))
        raise ValueError(f"{where}: {bad!r} is not a number") from None
    fits = np.abs(vector) <= np.finfo(np.float32).max  # false for NaN too
    if not fits.all():
        column = int(fits.argmin())
        raise ValueError(f"{where}: {fields[column]!r} is no finite float32 (number {column + 1})")
    return vector.astype(np.float32)


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _near(word, known):
    near = get_close_matches(word, known, n=3, cutoff=0.75)
    return f"; near spellings: {', '.join(near)}" if near else ""
