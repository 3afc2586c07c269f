import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import permutations
from sklearn.feature_extraction.text import TfidfVectorizer

from measured.baselines import (
    MeanEmbedding,
    build_mean_embedding,
    fit_tfidf,
    majority_class,
    split_words,
)
from measured.classifier import ClassifierSize

SIZE = ClassifierSize(vocab_size=31, num_classes=5, d_model=7, max_length=13)
TEXTS = [
    "the king, the crown",
    "a fool and a rose",
    "The king's blood",
    "the rose",
    "blood, blood!",
]
LABELS = np.array([1, 0, 2, 0, 2])


@pytest.mark.parametrize(("labels", "expected"), [([2, 0, 2, 1], 2), ([1, 0, 1, 0], 0), ([2], 2)])
def test_majority_by_hand(labels, expected):
    assert majority_class(labels) == expected


def test_no_labels_have_no_majority():
    with pytest.raises(ValueError, match="no labels"):
        majority_class([])


def test_the_weight_of_a_word_by_hand():
    weights = fit_tfidf(TEXTS, LABELS)[0]
    row = weights.transform(["the king the crown"]).toarray()[0]
    # "the" is in 3 of 5 texts, "king" and "crown" in 1; ln(6 / (1 + n)) + 1
    raw = {"the": 2 * (np.log(6 / 4) + 1), "king": np.log(6 / 2) + 1, "crown": np.log(6 / 2) + 1}
    length = np.sqrt(sum(value**2 for value in raw.values()))
    names = weights.get_feature_names_out()
    got = {names[i]: row[i] for i in np.flatnonzero(row)}
    assert got == pytest.approx({word: value / length for word, value in raw.items()}, abs=1e-12)


def test_the_regression_is_at_its_optimum():
    """The gradient of C · Σ -ln p + |w|² / 2 is zero there: written out in NumPy, float64."""
    pipeline = fit_tfidf(TEXTS, LABELS, strength=2.0)
    inputs, model = pipeline[0].transform(TEXTS).toarray(), pipeline[1]
    scores = inputs @ model.coef_.T + model.intercept_
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    errors = probabilities - np.eye(3)[LABELS]
    assert np.abs(2.0 * errors.T @ inputs + model.coef_).max() < 1e-4
    assert np.abs(errors.sum(axis=0)).max() < 1e-4


def test_words_that_are_not_named_do_not_count():
    pipeline = fit_tfidf(TEXTS, LABELS, words=["king", "rose"])
    assert pipeline[0].transform(["the king and the fool"]).toarray().tolist() == [[1, 0]]


def test_words_and_weights_may_come_from_other_texts():
    weights = fit_tfidf(TEXTS, LABELS, adapt_to=[*TEXTS, "moon", "the moon"])[0]
    assert weights.idf_[weights.vocabulary_["moon"]] == pytest.approx(np.log(8 / 3) + 1)
    assert weights.idf_[weights.vocabulary_["the"]] == pytest.approx(np.log(8 / 5) + 1)


def test_split_words_differs_from_scikit_learn_in_short_words_and_apostrophes():
    theirs = TfidfVectorizer().build_analyzer()("The king's a fool")
    assert theirs == ["the", "king", "fool"]
    assert split_words("The king's a fool") == ["the", "kings", "a", "fool"]


def test_mean_embedding_by_hand():
    model = build_mean_embedding(SIZE, seed=0)
    table, kernel, bias = model.get_weights()
    scores = (table[3] + 2 * table[8]) / 3 @ kernel + bias
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(model(np.array([[3, 8, 8, 0, 0]]))[0], expected, atol=1e-6)


@given(permutations(list(range(1, 8))))
def test_no_order_of_the_words_changes_the_mean(order):
    model = build_mean_embedding(SIZE, seed=0)
    first, turned = model(np.array([[1, 2, 3, 4, 5, 6, 7], order]))
    np.testing.assert_allclose(first, turned, atol=1e-6)  # float32, a sum in another order


def test_it_is_as_wide_as_the_classifier_and_has_no_more_than_two_parts():
    model = build_mean_embedding(ClassifierSize(), seed=0)
    assert model.count_params() == 5000 * 32 + 32 * 3 + 3


def test_a_mean_embedding_saved_by_keras_comes_back(tmp_path):
    model = build_mean_embedding(SIZE, seed=2)
    model.save(tmp_path / "mean.keras")
    again = keras.saving.load_model(tmp_path / "mean.keras")
    assert isinstance(again, MeanEmbedding)
    tokens = np.array([[3, 8, 0]])
    np.testing.assert_array_equal(again(tokens), model(tokens))
