import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from keras import ops
from reference import multi_head
from reference import rotate as rotate_reference

from measured.masks import causal_mask, padding_mask
from measured.multihead import MultiHeadAttention, merge_heads, rotate, split_heads
from measured.positions import rotary


def random(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def with_random_weights(layer, *shapes, seed=11):
    """A built layer whose biases are not zero: zeros would hide a forgotten one."""
    layer.build(*shapes)
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(0, 0.4, weight.shape) for weight in layer.weights])
    return layer


def test_heads_are_split_column_by_column_by_hand():
    projected = np.array([[[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]])
    heads = np.array(split_heads(projected, 2))
    assert heads.tolist() == [[[[1, 2, 3], [7, 8, 9]], [[4, 5, 6], [10, 11, 12]]]]


@given(integers(1, 3), integers(1, 5), integers(1, 7), integers(1, 4))
@settings(deadline=None, max_examples=20)
def test_merging_undoes_splitting(batch, sequence, heads, dim):
    projected = random(batch, sequence, heads * dim)
    np.testing.assert_array_equal(merge_heads(split_heads(projected, heads)), projected)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("mask", [None, "causal", "padding"])
def test_equals_the_layer_of_keras_with_the_same_weights(use_bias, mask):
    query, value, key = random(2, 5, 13), random(2, 5, 17, seed=8), random(2, 5, 19, seed=9)
    theirs = keras.layers.MultiHeadAttention(3, 7, value_dim=11, use_bias=use_bias)
    shapes = query.shape, value.shape, key.shape
    ours = with_random_weights(MultiHeadAttention(3, 7, 11, use_bias=use_bias), *shapes)
    theirs.build(*shapes)
    theirs.set_weights(ours.get_weights())
    tokens = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])
    chosen = {"causal": causal_mask(5), "padding": padding_mask(tokens)}.get(mask)
    asked = {"attention_mask": chosen, "return_attention_scores": True}
    for got, expected in zip(
        ours(query, value, key, **asked), theirs(query, value, key, **asked), strict=True
    ):
        # float32, sums of up to 33 products of size 1: some ten units in the last place
        np.testing.assert_allclose(got, expected, atol=5e-6, rtol=1e-6)


def test_equals_the_layer_of_keras_to_a_millionth_at_its_own_initialisation():
    query = random(2, 7, 32)
    theirs = keras.layers.MultiHeadAttention(4, 8)
    ours = MultiHeadAttention(4, 8)
    theirs.build(query.shape, query.shape)
    ours.build(query.shape, query.shape)
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(query, query), theirs(query, query), atol=1e-6)


def test_draws_the_same_weights_as_keras_from_the_same_seed():
    # From Keras 3.15 on; earlier ones take the number of heads for a convolution's width.
    kernels = []
    for kind in (keras.layers.MultiHeadAttention, MultiHeadAttention):
        keras.utils.set_random_seed(10)
        layer = kind(3, 5)
        layer.build((2, 7, 11), (2, 7, 11))
        kernels.append(layer.get_weights())
    for ours, theirs in zip(*kernels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("turned", [False, True])
def test_agrees_with_the_reference_of_the_paper(turned):
    query, value = random(2, 5, 13), random(2, 5, 17, seed=8)
    layer = with_random_weights(MultiHeadAttention(3, 4, rotary=turned), query.shape, value.shape)
    mask = np.tri(5, dtype=bool)
    output, weights = layer(
        query, value, attention_mask=causal_mask(5), return_attention_scores=True
    )
    exact = [weight.astype("float64") for weight in layer.get_weights()]
    for b in range(2):
        expected, each = multi_head(
            exact, query[b].astype("float64"), value[b].astype("float64"), None, mask, turned
        )
        # float32 against float64
        np.testing.assert_allclose(output[b], expected, atol=1e-5)
        np.testing.assert_allclose(weights[b], each, atol=1e-5)


def test_parameters_of_width_32_with_four_heads():
    # 4 · (32 · 32 + 32), by hand; and four times the width when key_dim is taken for d_model
    layers = MultiHeadAttention(4, 8), MultiHeadAttention(4, 32)
    for layer in layers:
        layer.build((1, 3, 32), (1, 3, 32))
    assert [layer.count_params() for layer in layers] == [4_224, 16_800]


def test_key_dim_is_the_width_of_one_head():
    layer = MultiHeadAttention(6, 16)
    layer.build((1, 3, 96), (1, 3, 96))
    assert tuple(layer.query_weights[0].shape) == (96, 6, 16)
    assert layer.count_params() == 37_248


@pytest.mark.parametrize("turned", [False, True])
def test_permuting_tokens_permutes_outputs_unless_positions_turn_them(turned):
    states, order = random(2, 7, 12), np.array([4, 2, 6, 0, 1, 5, 3])
    layer = with_random_weights(MultiHeadAttention(3, 4, rotary=turned), states.shape, states.shape)
    permuted, plain = layer(states[:, order], states[:, order]), np.array(layer(states, states))
    difference = np.abs(permuted - plain[:, order])
    # 1e-5: float32 sums in another order; 0.1: far above it
    assert difference.max() > 0.1 if turned else difference.max() < 1e-5


def test_a_hidden_key_counts_as_little_as_a_deleted_one():
    query, value = random(1, 3, 10), random(1, 5, 10, seed=8)
    layer = with_random_weights(MultiHeadAttention(2, 5), query.shape, value.shape)
    hidden = layer(query, value, attention_mask=padding_mask(np.array([[1, 1, 0, 1, 0]])))
    np.testing.assert_allclose(hidden, layer(query, value[:, [0, 1, 3]]), atol=1e-5)


def test_rotation_agrees_with_the_reference_and_with_numpy():
    heads = random(2, 3, 7, 8)
    turned = np.array(rotate(heads, np.arange(7)))
    np.testing.assert_allclose(turned, rotary(heads), atol=1e-6)
    exact = rotate_reference(heads[1, 2].astype("float64"))
    np.testing.assert_allclose(turned[1, 2], exact, atol=2e-6)  # float32 angles up to 6


@given(integers(0, 50), integers(0, 50), integers(0, 50))
@settings(deadline=None, max_examples=20)
def test_rotated_products_know_only_the_offset(first, second, shift):
    query, key = random(1, 1, 1, 8), random(1, 1, 1, 8, seed=8)

    def product(m, n):
        return np.sum(rotate(query, np.array([m])) * rotate(key, np.array([n])))

    # float32 angles up to 100, each off by up to 1e-5, times vectors of length 3
    assert abs(product(first, second) - product(first + shift, second + shift)) < 3e-4


@pytest.mark.parametrize("turned", [False, True])
def test_in_pieces_equals_whole(turned):
    states = random(2, 7, 12)
    layer = with_random_weights(MultiHeadAttention(3, 4, rotary=turned), states.shape, states.shape)
    whole = layer(states, states, attention_mask=causal_mask(7))
    pieces = [layer.project_key_value(states[:, t : t + 1], start=t) for t in range(7)]
    for t in range(7):
        keys, values = (
            ops.concatenate(kind, axis=2) for kind in zip(*pieces[: t + 1], strict=True)
        )
        query = layer.project_query(states[:, t : t + 1], start=t)
        output, _ = layer.attend(query, keys, values)
        np.testing.assert_allclose(output[:, 0], whole[:, t], atol=1e-5)


def test_dropout_hides_whole_weights_in_training_only():
    states = random(2, 31, 12)
    layer = MultiHeadAttention(3, 4, dropout=0.5)
    plain = layer(states, states)
    np.testing.assert_array_equal(layer(states, states, training=False), plain)
    assert np.abs(layer(states, states, training=True) - plain).max() > 0.01


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_heads": 0, "key_dim": 4}, "num_heads must be a positive integer, got 0"),
        ({"num_heads": 2, "key_dim": -4}, "key_dim must be a positive integer, got -4"),
        ({"num_heads": 2, "key_dim": 4.0}, r"key_dim must be a positive integer, got 4\.0"),
        ({"num_heads": 2, "key_dim": 4, "value_dim": 0}, "value_dim must be a positive integer"),
        ({"num_heads": 2, "key_dim": 5, "rotary": True}, "key_dim must be even, got 5"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        MultiHeadAttention(**arguments)


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"query must be \(batch, sequence, width\), got shape"):
        MultiHeadAttention(2, 4)(random(3, 8), random(3, 8))
    layer = with_random_weights(MultiHeadAttention(2, 4), (2, 3, 8), (2, 3, 8))
    with pytest.raises(ValueError, match=r"value must be \(batch, sequence, width\), got shape"):
        layer(random(2, 3, 8), random(2, 3, 8, 1))


def test_a_mask_cannot_be_passed_by_position():
    states = random(2, 3, 8)
    with pytest.raises(TypeError, match="too many positional arguments"):
        MultiHeadAttention(2, 4)(states, states, states, causal_mask(3))
