from dataclasses import FrozenInstanceError, replace

import keras
import numpy as np
import pytest
import reference_bert
from scipy.special import erf

from measured.bert import (
    BASE,
    LARGE,
    MINILM,
    TINY,
    Bert,
    BertConfig,
    count_by_part,
    gelu_tanh,
    without_values,
)
from measured.bert_float64 import all_states_float64
from measured.budgets import bert_parameters
from measured.checkpoints import bert_from
from measured.leaks import future_leak, padding_leak
from measured.masks import padding_mask

SMALL = BertConfig(23, 2, 6, 3, 13, max_length=11, segments=3)
TOKENS = np.array([[5, 3, 8, 2, 9, 4, 0], [7, 1, 6, 0, 0, 0, 0]])
SEGMENTS = np.array([[0, 0, 1, 1, 2, 2, 0], [0, 1, 2, 0, 0, 0, 0]])
OTHER = np.array([[6, 4, 7, 3, 8, 5, 11], [8, 2, 5, 12, 13, 14, 15]])  # nowhere as TOKENS


@pytest.fixture(scope="module")
def tensors():
    return reference_bert.random_tensors(SMALL)


@pytest.fixture(scope="module")
def bert(tensors):
    return bert_from(SMALL, tensors)


def test_base_and_large_have_the_counts_of_their_closed_forms_part_by_part():
    for config, count in ((BASE, 109_482_240), (LARGE, 335_141_888), (MINILM, 22_713_216)):
        counted = count_by_part(without_values(config))
        assert counted == bert_parameters(config)
        assert sum(counted.values()) == count == without_values(config).count_params()


def test_base_counted_by_hand():
    width, wide = 768, 3072
    counted = count_by_part(without_values(BASE))
    assert counted["embeddings"] == (30_522 + 512 + 2) * width
    assert counted["attention projections"] == 12 * 4 * (width * width + width)
    assert counted["feed-forward"] == 12 * (width * wide + wide + wide * width + width)
    assert counted["normalisation"] == (1 + 12 * 2) * 2 * width
    assert counted["output"] == width * width + width


def test_counting_allocates_nothing_now_or_later():
    large = without_values(LARGE)
    assert len(large.weights) == 5 + 24 * 16 + 2
    keras.Model(symbol := keras.Input((3,), dtype="int32"), Bert(TINY)(symbol))
    with keras.StatelessScope():
        pass  # gives values to all variables that Keras knows to lack them
    assert all(weight._value is None for weight in large.weights)


def test_a_tiny_config_has_no_pooler_and_counts_none():
    counted = count_by_part(without_values(TINY))
    assert counted == bert_parameters(TINY) and counted["output"] == 0


def test_agrees_with_the_reference_in_float64(bert, tensors):
    ours, pooled = bert(TOKENS, SEGMENTS, return_all_states=True, return_pooled=True)
    for row, tokens in enumerate(TOKENS):
        theirs = reference_bert.states(tensors, tokens, 3, SEGMENTS[row])
        length = np.count_nonzero(tokens)
        assert len(ours) == len(theirs) == 3
        for own, exact in zip(ours, theirs, strict=True):
            # float32; states of size 1 to 2, sums of some ten terms
            np.testing.assert_allclose(own[row, :length], exact, atol=1e-5)
        expected = reference_bert.pooled(tensors, theirs[-1])
        np.testing.assert_allclose(pooled[row], expected, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_the_float64_pass_of_the_package_is_the_reference(activation, tensors):
    config = replace(SMALL, activation=activation)
    ours = all_states_float64(tensors, config, TOKENS, SEGMENTS)
    for row, tokens in enumerate(TOKENS):
        theirs = reference_bert.states(tensors, tokens, 3, SEGMENTS[row], activation)
        for own, exact in zip(ours, theirs, strict=True):
            # float64, some hundred operations on top of each other
            np.testing.assert_allclose(own[row, : len(exact)], exact, atol=1e-12)


def test_layer_0_is_the_normalised_sum_of_three_rows(bert, tensors):
    tables = [tensors[f"embeddings.{k}_embeddings.weight"] for k in ("word", "token_type")]
    row = tables[0][8] + tables[1][1] + tensors["embeddings.position_embeddings.weight"][2]
    row = (row - row.mean()) / row.std()
    scale, offset = (tensors[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias"))
    embedded = np.array(bert.embed(TOKENS, SEGMENTS))
    np.testing.assert_allclose(embedded[0, 2], row * scale + offset, atol=1e-5)
    np.testing.assert_array_equal(bert(TOKENS, SEGMENTS, return_all_states=True)[0], embedded)


def test_what_is_returned_on_request_is_of_the_same_pass(bert):
    states = np.array(bert(TOKENS))
    every = bert(TOKENS, return_all_states=True)
    again, pooled = bert(TOKENS, return_pooled=True)
    assert states.shape == (2, 7, 6) and pooled.shape == (2, 6) and len(every) == 3
    np.testing.assert_array_equal(every[-1], states)
    np.testing.assert_array_equal(again, states)
    np.testing.assert_array_equal(bert(TOKENS, np.zeros_like(TOKENS)), states)


def test_segments_matter_where_they_differ_and_everywhere_after_one_layer(bert):
    plain, marked = (bert(TOKENS, s, return_all_states=True) for s in (None, SEGMENTS))
    moved = np.abs(np.array(plain[0]) - np.array(marked[0])).max(axis=-1) > 0
    np.testing.assert_array_equal(moved, SEGMENTS > 0)
    assert np.all(np.abs(np.array(plain[1]) - np.array(marked[1]))[TOKENS > 0].max(axis=-1) > 1e-4)


def test_padding_is_hidden_without_being_asked(bert):
    mask = padding_mask(TOKENS)
    assert padding_leak(lambda ids: bert(ids, padding_mask=mask), TOKENS, OTHER, TOKENS > 0) is None
    everything = np.ones((2, 1, 1, 7), bool)
    seen = padding_leak(lambda ids: bert(ids, padding_mask=everything), TOKENS, OTHER, TOKENS > 0)
    assert seen is not None and seen.changed == (6,)
    np.testing.assert_array_equal(bert(TOKENS), bert(TOKENS, padding_mask=mask))
    # Deleting is hiding: float32, the sums are of other lengths.
    np.testing.assert_allclose(bert(TOKENS)[1:, :3], bert(TOKENS[1:, :3]), atol=1e-5)


def test_reads_in_both_directions(bert):
    leak = future_leak(lambda ids: bert(ids), TOKENS[:1, :6], OTHER[:1, :6])
    assert leak.position == 0 and leak.changed == (1,)


def test_without_positions_it_would_be_blind_to_order(tensors):
    still = {**tensors}
    still["embeddings.position_embeddings.weight"] = np.zeros((11, 6), "float32")
    order = np.array([3, 0, 2, 1])
    blind, sees = (bert_from(SMALL, weights) for weights in (still, tensors))
    ids = TOKENS[:1, :4]
    np.testing.assert_allclose(blind(ids[:, order]), np.array(blind(ids))[:, order], atol=1e-5)
    assert np.abs(np.array(sees(ids[:, order])) - np.array(sees(ids))[:, order]).max() > 0.1


def test_gelu_is_exact_and_its_approximation_is_not(bert, tensors):
    x = np.linspace(-6, 6, 1201)
    exact = x * (1 + erf(x / np.sqrt(2))) / 2
    approximate = np.array(gelu_tanh(x.astype("float32")), "float64")
    error = np.abs(approximate - exact)
    assert 4.5e-4 < error.max() < 5e-4 and 2.6 < abs(x[error.argmax()]) < 2.8
    np.testing.assert_allclose(keras.activations.gelu(x.astype("float32")), exact, atol=1e-6)
    other = bert_from(replace(SMALL, activation="gelu_tanh"), tensors)
    off = np.abs(np.array(other(TOKENS)) - np.array(bert(TOKENS)))[TOKENS > 0].max()
    assert 1e-5 < off < 1e-2


def test_dropout_works_in_training_alone(bert):
    states = np.array(bert(TOKENS))
    np.testing.assert_array_equal(bert(TOKENS, training=False), states)
    assert np.abs(np.array(bert(TOKENS, training=True)) - states).max() > 0.01
    first = bert(TOKENS, training=True, return_all_states=True)[0]
    assert not np.array_equal(first, bert.embed(TOKENS))  # on the embeddings too
    off = Bert(replace(SMALL, dropout=0.0, attention_dropout=0.0))
    np.testing.assert_array_equal(off(TOKENS, training=True), off(TOKENS))


def test_compiled_saved_and_loaded_it_gives_the_same(bert, tmp_path):
    tokens, segments = (keras.Input((None,), dtype="int32") for _ in range(2))
    model = keras.Model([tokens, segments], bert(tokens, segments, return_pooled=True))
    compiled = model.predict_on_batch([TOKENS, SEGMENTS])
    for own, eager in zip(compiled, bert(TOKENS, SEGMENTS, return_pooled=True), strict=True):
        np.testing.assert_allclose(own, eager, atol=2e-5)  # fused in another order
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for own, theirs in zip(loaded.predict_on_batch([TOKENS, SEGMENTS]), compiled, strict=True):
        np.testing.assert_array_equal(own, theirs)
    assert Bert.from_config(bert.get_config()).config == SMALL
    approximate = Bert(replace(SMALL, activation="gelu_tanh"))
    assert Bert.from_config(approximate.get_config()).config.activation == "gelu_tanh"


def test_refuses_what_it_cannot_read(bert):
    with pytest.raises(ValueError, match=r"tokens must be \(batch, sequence\), got shape \(7,\)"):
        bert.embed(TOKENS[0])
    with pytest.raises(ValueError, match="a sequence of 14 is longer than the table of 11"):
        bert(np.ones((1, 14), int))
    with pytest.raises(ValueError, match=r"segments must be \(2, 7\) .* got shape \(2, 1\)"):
        bert(TOKENS, SEGMENTS[:, :1])
    with pytest.raises(ValueError, match="nothing to pool with"):
        Bert(replace(SMALL, pooler=False))(TOKENS, return_pooled=True)


def test_refuses_a_config_that_makes_no_encoder():
    with pytest.raises(ValueError, match="must be one of 'gelu', 'gelu_tanh'; got 'relu'"):
        Bert(replace(SMALL, activation="relu"))
    with pytest.raises(ValueError, match="num_layers must be a positive integer, got 0"):
        Bert(replace(SMALL, num_layers=0))
    with pytest.raises(ValueError, match="d_model 6 is no multiple of num_heads 4"):
        Bert(replace(SMALL, num_heads=4))
    with pytest.raises(FrozenInstanceError):
        SMALL.dropout = 0.5
