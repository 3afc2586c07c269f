import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists, sampled_from

from measured.embeddings import (
    embedding_matrix,
    glove_path,
    load_glove,
    pad_texts,
    tokenize,
    word_index,
)

timeless = settings(deadline=None)  # a busy machine is not a failure
CODE = Path(__file__).resolve().parents[2] / "code"
SUBSET = Path(__file__).resolve().parents[2] / "media/data/glove.6B.100d.subset.txt"
SENTENCES = [
    "king queen man woman dog wolf football basketball red green yellow",
    "man queen yellow basketball green dog woman football king red wolf",
]


@pytest.fixture(autouse=True)
def the_shipped_file(monkeypatch):
    monkeypatch.delenv("GLOVE_PATH", raising=False)
    monkeypatch.delenv("QUARTO_PROJECT_ROOT", raising=False)


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "vectors.txt"
        path.write_bytes(text.encode())
        return path

    return write


def test_reads_words_and_numbers_as_written(write):
    vectors = load_glove(write("the 1.5 -2 3e-1\n. 0 0.25 7\nnaïve 1 2 3\n"), dimensions=3)
    assert list(vectors) == ["the", ".", "naïve"]
    assert vectors["the"].dtype == np.float32
    np.testing.assert_array_equal(vectors["the"], np.float32([1.5, -2, 0.3]))
    assert vectors["."].tolist() == [0, 0.25, 7]


def test_windows_line_ends_and_a_missing_last_one_change_nothing(write):
    vectors = load_glove(write("a 1 2\r\nb 3 4"), dimensions=2)
    assert {word: vector.tolist() for word, vector in vectors.items()} == {"a": [1, 2], "b": [3, 4]}


def test_agrees_with_the_reader_of_numpy_on_the_shipped_file():
    table = np.loadtxt(SUBSET, dtype=np.float32, usecols=range(1, 101), comments=None)
    words = [line.split(" ")[0] for line in SUBSET.read_text(encoding="utf-8").splitlines()]
    vectors = load_glove()
    assert list(vectors) == words
    np.testing.assert_array_equal(np.stack(list(vectors.values())), table)


def test_words_asked_for_have_the_vectors_of_the_whole_file():
    everything, some = load_glove(), load_glove(words=["yellow", "king"])
    assert set(some) == {"yellow", "king"}
    for word, vector in some.items():
        np.testing.assert_array_equal(vector, everything[word])


def test_reading_stops_at_the_last_word_asked_for(write):
    assert list(load_glove(write("a 1\nb 2\nbroken\n"), words=["b"], dimensions=1)) == ["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2 3\nb 1 2\n", r"vectors.txt:2: expected a word and 3 numbers, got 2 numbers"),
        ("a 1 2 3\nb 1 2 3 4\n", r"vectors.txt:2: expected a word and 3 numbers, got 4 numbers"),
        ("a 1 2 3\n\n", r"vectors.txt:2: expected a word and 3 numbers, got 0 numbers"),
        ("a 1 2 3\nb\n", r"vectors.txt:2: expected a word and 3 numbers, got 0 numbers"),
        ("a 1 2 3\nb 1 2,5 3\n", r"vectors.txt:2: '2,5' is not a number"),
        ("a 1 2  3\n", r"vectors.txt:1: expected a word and 3 numbers, got 4 numbers"),
        ("a 1 nan 3\n", r"vectors.txt:1: 'nan' is no finite float32 \(number 2\)"),
        ("a 1 2 -inf\n", r"vectors.txt:1: '-inf' is no finite float32 \(number 3\)"),
        ("a 1 2 1e99\n", r"vectors.txt:1: '1e99' is no finite float32 \(number 3\)"),
        ("a 1 2 3\nb 1 2 3\na 4 5 6\n", r"vectors.txt:3: 'a' already stands in line 1"),
        ("", r"vectors.txt: is empty; expected a word and 3 numbers a line"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(write, text, message):
    with pytest.raises(ValueError, match=message):
        load_glove(write(text), dimensions=3)


def test_a_missing_word_is_named_with_near_spellings():
    with pytest.raises(LookupError, match=r"no vector for 'quene'; near spellings: queen"):
        load_glove(words=["king", "quene"])


def test_the_shipped_file_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert glove_path() == SUBSET


def test_quarto_project_root_comes_first(tmp_path, monkeypatch):
    (tmp_path / "media/data").mkdir(parents=True)
    (tmp_path / "media/data/glove.6B.100d.subset.txt").write_text("one 1 2\n")
    monkeypatch.setenv("QUARTO_PROJECT_ROOT", str(tmp_path))
    assert list(load_glove(dimensions=2)) == ["one"]


def test_glove_path_names_another_file(write, monkeypatch):
    monkeypatch.setenv("GLOVE_PATH", str(write("one 1 2\n")))
    assert list(load_glove(dimensions=2)) == ["one"]


def test_a_wrong_glove_path_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVE_PATH", str(tmp_path / "absent.txt"))
    with pytest.raises(FileNotFoundError, match=r"GLOVE_PATH names .*absent.txt, which is not"):
        load_glove()


def test_what_was_looked_for_is_said_when_no_file_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("measured.embeddings.__file__", str(tmp_path / "elsewhere/embeddings.py"))
    with pytest.raises(FileNotFoundError, match=r"subset.txt is in none of these.*GLOVE_PATH"):
        load_glove()


def test_tokens_are_lower_case_words_without_punctuation():
    words = tokenize("The wolf's coat: red, RED (or-else)!")
    assert words == ["the", "wolf's", "coat", "red", "red", "or", "else"]


def test_frequent_words_come_first_and_ties_by_first_use():
    assert word_index(["b a c", "c d"]) == {"c": 1, "b": 2, "a": 3, "d": 4}


def test_index_of_the_two_sentences_by_hand():
    assert word_index(SENTENCES) == {word: i for i, word in enumerate(SENTENCES[0].split(), 1)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_the_tokenizer_that_keras_keeps_for_old_code():
    from keras.src.legacy.preprocessing.text import Tokenizer
    from keras.utils import pad_sequences

    texts = [*SENTENCES, "The king, the red king!", "wolf (a) wolf's"]
    theirs = Tokenizer()
    theirs.fit_on_texts(texts)
    index = word_index(texts)
    assert list(index.items()) == list(theirs.word_index.items())
    padded = pad_sequences(theirs.texts_to_sequences(texts), maxlen=13, padding="post")
    np.testing.assert_array_equal(pad_texts(texts, index, 13), padded)


@timeless
@given(texts=lists(lists(sampled_from("abcde"), max_size=7), min_size=1), length=integers(7, 11))
def test_padding_keeps_words_in_order_and_zeros_after_them(texts, length):
    texts = [" ".join(text) for text in texts]
    index = word_index(texts)
    ids = pad_texts(texts, index, length)
    assert ids.shape == (len(texts), length) and ids.dtype == np.int32
    words = {number: word for word, number in index.items()}
    for row, text in zip(ids.tolist(), texts, strict=True):
        count = len(text.split())
        assert [words[number] for number in row[:count]] == text.split()
        assert not any(row[count:])


def test_matrix_has_padding_zeros_and_then_the_vectors_by_id():
    vectors = {"b": np.float32([3, 4]), "a": np.float32([1, 2]), "unused": np.float32([9, 9])}
    matrix = embedding_matrix({"a": 2, "b": 1}, vectors)
    assert matrix.tolist() == [[0, 0], [3, 4], [1, 2]] and matrix.dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: word_index("one text"), TypeError, "texts must be a list of strings"),
        (lambda: pad_texts(["a b c"], {"a": 1, "b": 2, "c": 3}, 2), ValueError, "3 words, more th"),
        (
            lambda: pad_texts(["wolf"], {"wolfs": 1}, 2),
            LookupError,
            "'wolf' has no id; near.*wolfs",
        ),
        (lambda: embedding_matrix({"a": 1}, {"b": 0}), LookupError, "no vector for 'a'"),
        (lambda: embedding_matrix({}, {}), ValueError, "index has no words"),
        (
            lambda: embedding_matrix({"a": 0}, {"a": np.ones(2)}),
            ValueError,
            "ids must be 1 to 1, each once; 0 is padding",
        ),
    ],
)
def test_what_would_be_dropped_in_silence_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_numpy_modules_import_neither_tensorflow_nor_keras():
    modules = "measured.positions, measured.embeddings, measured.layouts, measured.figures"
    program = (
        f"import {modules}, sys; print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=CODE, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"
