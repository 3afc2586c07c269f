import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import floats, integers
from reference_bert import needs_checkpoint, states, stored

from measured.checkpoints import load_minilm, minilm_vocabulary
from measured.sentences import SENTENCES, mean_pool, sentence_vectors, unit
from measured.wordpiece import WordPiece

TOKENS = np.array([[5, 3, 0], [7, 1, 6]])
STATES = np.array([[[1, 4], [3, 0], [50, 60]], [[0, 0], [3, 3], [6, 0]]], dtype="float32")


@pytest.fixture(scope="module")
def minilm():
    return load_minilm(), WordPiece.from_vocabulary(minilm_vocabulary())


def test_mean_of_three_tokens_by_hand():
    assert mean_pool(STATES, TOKENS).tolist() == [[2, 2], [3, 1]]
    np.testing.assert_allclose(mean_pool(STATES), [[18, 64 / 3], [3, 1]], rtol=1e-15)


@given(
    padding=integers(0, 7), noise=arrays("float64", (2, 7, 5), elements=floats(-1e6, 1e6, width=32))
)
def test_what_stands_under_the_padding_does_not_count(padding, noise):
    tokens = np.pad(np.array([[5, 3, 8], [7, 1, 6]]), ((0, 0), (0, padding)))
    real = np.random.default_rng(3).normal(size=(2, 3, 5))
    filled = np.concatenate([real, noise[:, :padding]], axis=1)
    np.testing.assert_allclose(mean_pool(filled, tokens), real.mean(axis=1), rtol=1e-12)


def test_not_a_number_under_the_padding_does_not_pass():
    poisoned = np.where(TOKENS[:, :, None] == 0, np.nan, STATES)
    assert np.isfinite(mean_pool(poisoned, TOKENS)).all()


def test_unit_vectors_by_hand():
    assert unit([[3, 4], [0, -2]]).tolist() == [[0.6, 0.8], [0, -1]]


def test_refuses_states_that_are_no_sentences():
    with pytest.raises(
        ValueError, match=r"states must be \(batch, sequence, width\), got .*\(3, 2\)"
    ):
        mean_pool(STATES[0])
    with pytest.raises(ValueError, match=r"tokens must be \(2, 3\) as the states, got \(1, 3\)"):
        mean_pool(STATES, TOKENS[:1])
    with pytest.raises(ValueError, match="row 1 has no token"):
        mean_pool(STATES, TOKENS * [[1], [0]])


@needs_checkpoint
def test_vectors_are_those_of_the_reference(minilm):
    bert, wordpiece = minilm
    ours = sentence_vectors(bert, wordpiece, SENTENCES[:2] + SENTENCES[3:4])
    for row, text in zip(ours, SENTENCES[:2] + SENTENCES[3:4], strict=True):
        last = states(stored(), wordpiece.encode(text)[0], 12)[-1]
        exact = last.mean(axis=0) / np.linalg.norm(last.mean(axis=0))
        np.testing.assert_allclose(row, exact, atol=1e-6)  # float32; entries around 0.05


@needs_checkpoint
def test_neither_company_nor_order_nor_padding_changes_a_vector(minilm):
    bert, wordpiece = minilm
    together = sentence_vectors(bert, wordpiece, SENTENCES)
    assert together.shape == (8, 384)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-12)
    alone = np.vstack([sentence_vectors(bert, wordpiece, [text]) for text in SENTENCES[-2:]])
    np.testing.assert_allclose(alone, together[-2:], atol=1e-6)  # 1e-7 measured
    longer = sentence_vectors(bert, wordpiece, SENTENCES[:3], length=41)
    np.testing.assert_allclose(longer, together[:3], atol=1e-6)
    backwards = sentence_vectors(bert, wordpiece, SENTENCES[::-1])
    np.testing.assert_allclose(backwards[::-1], together, atol=1e-6)


@needs_checkpoint
def test_without_the_mask_the_shortest_sentence_suffers_most(minilm):
    bert, wordpiece = minilm
    tokens, _ = wordpiece.batch(SENTENCES)
    hidden = np.array(bert(tokens))
    agreement = np.sum(unit(mean_pool(hidden)) * unit(mean_pool(hidden, tokens)), axis=1)
    lengths = np.count_nonzero(tokens, axis=1)
    assert agreement[lengths.argmax()] == pytest.approx(1, abs=1e-12)  # nothing to hide
    assert agreement.argmin() == lengths.argmin() and agreement.min() < 0.7


@needs_checkpoint
def test_what_means_the_same_is_nearer_than_what_shares_words(minilm):
    vectors = sentence_vectors(*minilm, SENTENCES)
    table = vectors @ vectors.T
    assert min(table[0, 1], table[4, 5]) > 0.6
    assert table[2, 6] > table[2, 3]  # "again this week", "bank": words win over meaning here
