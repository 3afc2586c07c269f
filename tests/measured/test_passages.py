import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists, text
from keras import layers

from measured.costs import find_data
from measured.passages import (
    DATA,
    GENRES,
    Passages,
    Vocabulary,
    folds_by_passage,
    folds_by_play,
    read_passages,
    shared_plays,
    standardize,
    unknown_share,
)

HEADER = "play\tgenre\tact\tscene\ttext\n"


@pytest.fixture(scope="module")
def passages():
    return read_passages()


@pytest.fixture
def written(tmp_path):
    """A file of passages with these lines after the header."""

    def write(*lines, header=HEADER, end="\n"):
        path = tmp_path / "passages.tsv"
        content = header + "".join(f"{line}\n" for line in lines)
        path.write_bytes(content.replace("\n", end).encode("utf-8"))
        return path

    return write


def test_the_file_has_sixty_passages_of_each_of_thirty_five_plays(passages):
    plays, counts = np.unique(passages.plays, return_counts=True)
    assert (len(passages), len(plays), set(counts.tolist())) == (2100, 35, {60})
    of_genre = [len(set(passages.plays[passages.labels == label])) for label in range(3)]
    assert dict(zip(GENRES, of_genre, strict=True)) == {
        "comedy": 14,
        "history": 10,
        "tragedy": 11,
    }
    assert passages.sha256 == hashlib.sha256(find_data(DATA).read_bytes()).hexdigest()


def test_line_endings_of_a_checkout_change_nothing(written):
    rows = ("hamlet\ttragedy\tI\tII\tTo be", "king-john\thistory\tI\tI\tOr not")
    unix = read_passages(written(*rows))
    windows = read_passages(written(*rows, end="\r\n"))
    assert (
        (unix.texts, unix.sha256)
        == (windows.texts, windows.sha256)
        == (
            ("To be", "Or not"),
            unix.sha256,
        )
    )
    assert unix.labels.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["hamlet\ttragedy\tI\tTo be"], r"passages\.tsv:2: expected 5 columns, got 4"),
        (["hamlet\tdrama\tI\tI\tTo be"], r":2: genre must be one of comedy, .*; got 'drama'"),
        (
            ["hamlet\ttragedy\tI\tI\tTo be", "hamlet\tcomedy\tI\tI\tOr not"],
            ":3: hamlet is a comedy here and a tragedy before",
        ),
        (
            ["hamlet\ttragedy\tI\tI\tTo be", "othello\ttragedy\tI\tI\tTo be"],
            ":3: the same text already stands in line 2",
        ),
        ([], "has no passages"),
    ],
)
def test_a_file_that_would_spoil_the_split_is_refused(written, lines, message):
    with pytest.raises(ValueError, match=message):
        read_passages(written(*lines))


def test_other_columns_are_refused(written):
    with pytest.raises(ValueError, match=":1: expected the columns play, genre, act, scene, text"):
        read_passages(written(header="text\tplay\n"))


@pytest.mark.parametrize("split", [folds_by_play, folds_by_passage])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_passage_is_in_the_test_once_and_in_one_part_of_each_fold(passages, split, seed):
    folds = split(passages, seed)
    tests = np.concatenate([fold.test for fold in folds])
    assert sorted(tests.tolist()) == list(range(2100))
    for fold in folds:
        parts = np.concatenate([fold.training, fold.validation, fold.test])
        assert sorted(parts.tolist()) == list(range(2100))
        assert np.array_equal(fold.seen, np.setdiff1d(np.arange(2100), fold.test))
        assert all(set(passages.labels[part]) == {0, 1, 2} for part in (fold.seen, fold.test))


@given(seed=integers(0, 1000))
@settings(max_examples=5)
def test_no_play_is_on_two_sides_of_a_split_by_play(seed):
    passages = read_passages()
    for fold in folds_by_play(passages, seed):
        for rows, others in [
            (fold.training, fold.validation),
            (fold.training, fold.test),
            (fold.validation, fold.test),
        ]:
            assert shared_plays(passages, rows, others) == []


def test_a_split_by_passage_has_every_play_on_both_sides(passages):
    for fold in folds_by_passage(passages):
        assert len(shared_plays(passages, fold.training, fold.test)) == 35


def test_shared_plays_by_hand():
    some = Passages(np.array(["b", "a", "b", "a", "c"]), np.zeros(5), ("",) * 5, "")
    assert shared_plays(some, [0, 1, 4], [2, 3]) == ["a", "b"]
    assert shared_plays(some, [0, 2], [1, 4]) == []


def test_a_vocabulary_by_hand():
    vocabulary = Vocabulary.adapt(["The king, the king's son!", "a KING"], size=5)
    # the 2, king 2, kings 1, son 1, a 1: of equal counts the last of the alphabet comes first
    assert vocabulary.words == ("", "[UNK]", "the", "king", "son")
    ids = vocabulary.encode(["Son of the king", "king"], 6)
    assert ids.tolist() == [[4, 1, 2, 3, 0, 0], [3, 0, 0, 0, 0, 0]]
    assert unknown_share(ids) == 0.2
    assert ids.dtype == np.int32


@pytest.mark.parametrize("size", [50, 5_000, 20_000])
def test_agrees_with_the_text_vectorization_of_keras(passages, size):
    some = passages.select(folds_by_play(passages)[0].training)
    theirs = layers.TextVectorization(size, output_sequence_length=72)
    theirs.adapt(some)
    ours = Vocabulary.adapt(some, size)
    assert ours.words == tuple(theirs.get_vocabulary())
    np.testing.assert_array_equal(
        ours.encode(passages.texts, 72), theirs(np.array(passages.texts, dtype=str))
    )


@given(lists(text(min_size=1), min_size=1, max_size=5))
def test_real_words_are_never_padding(texts):
    vocabulary = Vocabulary.adapt(texts, 7)
    counts = [len(standardize(text).split()) for text in texts]
    if min(counts) == 0:
        with pytest.raises(ValueError, match="has 0 words"):
            vocabulary.encode(texts, max(*counts, 1))
    else:
        ids = vocabulary.encode(texts, max(counts))
        assert np.sum(ids != 0, axis=1).tolist() == counts


def test_a_text_that_would_be_cut_is_refused():
    vocabulary = Vocabulary.adapt(["to be or not"])
    with pytest.raises(ValueError, match="text 1 has 4 words, expected 1 to 3"):
        vocabulary.encode(["to be", "to be or not"], 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the", "king"], r"begins with \('', '\[UNK\]'\), got \('the', 'king'\)"),
        (["", "[UNK]", "a", "a"], "holds each word once, got 'a' twice"),
    ],
)
def test_words_that_are_no_vocabulary_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(words)


def test_one_text_in_place_of_many_is_refused():
    with pytest.raises(TypeError, match="got one string"):
        Vocabulary.adapt("to be or not")


def test_the_digest_knows_the_order():
    one, other = (Vocabulary(["", "[UNK]", *words]) for words in (["a", "b"], ["b", "a"]))
    assert one.sha256() != other.sha256()
    assert one.sha256() == hashlib.sha256(b"\n[UNK]\na\nb").hexdigest()
