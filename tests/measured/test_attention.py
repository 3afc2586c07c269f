import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import floats, integers, permutations
from keras import ops

from measured.attention import scaled_dot_product_attention, softmax
from measured.masks import causal_mask, combine_masks, padding_mask


def random_heads(seed=0, queries=5, keys=7, width=3, value_width=11, dtype="float32"):
    """Query, key and value of prime sizes: (2, 3, sequence, width), 2 items of 3 heads."""
    rng = np.random.default_rng(seed)
    sizes = [(queries, width), (keys, width), (keys, value_width)]
    return [rng.normal(size=(2, 3, *size)).astype(dtype) for size in sizes]


def attention_by_loops(query, key, value, visible=lambda i, j: True):
    """Equation 1 of Vaswani et al. for one head, one number after another, in float64."""
    output = np.zeros((len(query), value.shape[1]))
    for i in range(len(query)):
        seen = [j for j in range(len(key)) if visible(i, j)]
        grown = {j: math.exp(math.fsum(query[i] * key[j]) / math.sqrt(len(query[i]))) for j in seen}
        for j in seen:
            output[i] += grown[j] / math.fsum(grown.values()) * value[j]
    return output


def test_softmax_of_three_logarithms_by_hand():
    weights = softmax(np.log([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(weights, [1 / 6, 2 / 6, 3 / 6], atol=1e-15)  # float64


def test_softmax_of_large_scores_does_not_overflow():
    weights = softmax(np.array([1000.0, 1000.0 + math.log(3)], dtype="float32"))
    np.testing.assert_allclose(weights, [1 / 4, 3 / 4], atol=2e-5)  # 1000 has steps of 6e-5


@given(arrays("float64", (3, 5), elements=floats(-50, 50)), floats(-50, 50))
@settings(deadline=None)
def test_softmax_is_a_distribution_and_ignores_a_shift(scores, shift):
    weights = np.array(softmax(scores))
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-14)  # float64, sums of 5 terms
    np.testing.assert_allclose(weights, softmax(scores + shift), atol=1e-12)  # 50 ± 50 rounds


def test_softmax_along_another_axis():
    scores = np.random.default_rng(5).normal(size=(3, 5, 7))
    np.testing.assert_allclose(softmax(scores, axis=1), ops.softmax(scores, axis=1), atol=1e-15)


def test_softmax_of_minus_infinity_is_zero_and_of_nothing_else_is_nan():
    assert np.array(softmax(np.array([0.0, -np.inf]))).tolist() == [1, 0]
    assert np.isnan(np.array(softmax(np.array([-np.inf, -np.inf])))).all()


def test_one_query_and_three_keys_by_hand():
    query = np.array([[1.0, 1.0, 0.0, 0.0]])
    key = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    value = np.array([[0.0, 7.0], [1.0, 7.0], [1.0, 7.0]])
    half = math.exp(0.5)  # scores 1, 0, 1 over the root of 4
    output, weights = scaled_dot_product_attention(query, key, value)
    np.testing.assert_allclose(weights, np.array([[half, 1, half]]) / (1 + 2 * half), atol=1e-15)
    np.testing.assert_allclose(output, [[(1 + half) / (1 + 2 * half), 7]], atol=1e-14)


@pytest.mark.parametrize(
    ("mask", "visible"),
    [
        (None, lambda i, j: True),
        (causal_mask(7), lambda i, j: j <= i),
        (combine_masks(padding_mask(np.array([[5, 5, 5, 0, 5, 0, 0]])), causal_mask(7)),
         lambda i, j: j <= i and j not in (3, 5, 6)),
    ],
    ids=["no mask", "causal", "causal and padding"],
)  # fmt: skip
def test_agrees_with_loops_written_from_the_paper(mask, visible):
    query, key, value = random_heads(queries=7, dtype="float64")
    output, _ = scaled_dot_product_attention(query, key, value, mask=mask)
    for item in np.ndindex(2, 3):
        wanted = attention_by_loops(query[item], key[item], value[item], visible)
        np.testing.assert_allclose(output[item], wanted, atol=1e-13)  # float64, sums of 7 terms


@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_the_operation_of_keras(masked):
    query, key, value = random_heads(queries=7)
    mask = causal_mask(7) if masked else None
    output, _ = scaled_dot_product_attention(query, key, value, mask=mask)
    # Keras has (batch, sequence, heads, width).
    query, key, value = (np.swapaxes(array, 1, 2) for array in (query, key, value))
    theirs = np.swapaxes(ops.dot_product_attention(query, key, value, mask=mask), 1, 2)
    np.testing.assert_allclose(output, theirs, atol=2e-6)  # float32, sums of 7 terms


def test_agrees_with_the_layer_of_keras_whose_projections_do_nothing():
    rng = np.random.default_rng(2)
    query, value = rng.normal(size=(2, 5, 6)), rng.normal(size=(2, 7, 6))
    layer = keras.layers.MultiHeadAttention(num_heads=3, key_dim=2, use_bias=False, dtype="float64")
    layer.build((2, 5, 6), (2, 7, 6))
    layer.set_weights([np.eye(6).reshape(6, 3, 2)] * 3 + [np.eye(6).reshape(3, 2, 6)])
    mask = rng.random((2, 5, 7)) < 0.5
    mask[:, :, 0] = True
    theirs, their_weights = layer(query, value, attention_mask=mask, return_attention_scores=True)

    def heads(states):
        return states.reshape(*states.shape[:2], 3, 2).swapaxes(1, 2)

    output, weights = scaled_dot_product_attention(
        heads(query), heads(value), heads(value), mask=mask[:, None]
    )
    # Keras 3.15 rounds the root of key_dim to float32 even in a float64 layer.
    np.testing.assert_allclose(weights, their_weights, rtol=0, atol=1e-7)
    ours = np.array(output).swapaxes(1, 2).reshape(2, 5, 6)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)


@given(hidden=integers(0, 6))
@settings(deadline=None)
def test_hiding_a_key_equals_deleting_it(hidden):
    query, key, value = random_heads(dtype="float64")
    mask = (np.arange(7) != hidden)[None, None, None]
    hiding, weights = scaled_dot_product_attention(query, key, value, mask=mask)
    deleted = (np.delete(array, hidden, axis=-2) for array in (key, value))
    deleting, _ = scaled_dot_product_attention(query, *deleted)
    np.testing.assert_allclose(hiding, deleting, atol=1e-14)  # float64, one more term of 0
    assert (np.array(weights)[..., hidden] == 0).all()


@given(order=permutations(range(7)))
@settings(deadline=None, max_examples=20)
def test_the_order_of_keys_and_values_does_not_matter_while_the_mask_moves_along(order):
    query, key, value = random_heads(dtype="float64")
    mask = np.random.default_rng(1).random((2, 1, 5, 7)) < 0.7
    mask[..., 0] = True
    output, _ = scaled_dot_product_attention(query, key, value, mask=mask)
    moved, _ = scaled_dot_product_attention(
        query, key[:, :, order], value[:, :, order], mask=mask[..., order]
    )
    np.testing.assert_allclose(output, moved, atol=1e-14)  # float64, another order of 7 terms


@given(past=integers(1, 6))
@settings(deadline=None)
def test_a_cached_step_equals_the_end_of_the_full_pass(past):
    query, key, value = random_heads(queries=7, dtype="float64")
    full, _ = scaled_dot_product_attention(query, key, value, mask=causal_mask(7))
    step, _ = scaled_dot_product_attention(
        query[:, :, past:], key, value, mask=causal_mask(7 - past, past)
    )
    np.testing.assert_allclose(step, full[:, :, past:], atol=1e-14)  # float64


def test_scaling_the_scores_by_the_root_of_the_width():
    query, key, value = random_heads(width=5, dtype="float64")
    _, once = scaled_dot_product_attention(query, key, value)
    # A width of zeros adds nothing to the products, but the root grows by the root of 4.
    wide = [np.concatenate([array] + [np.zeros_like(array)] * 3, axis=-1) for array in (query, key)]
    _, half = scaled_dot_product_attention(2 * wide[0], wide[1], value)
    np.testing.assert_allclose(once, half, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_stays_and_hidden_keys_weigh_zero_in_each(dtype):
    query, key, value = random_heads(queries=7, dtype=dtype)
    output, weights = scaled_dot_product_attention(query, key, value, mask=causal_mask(7))
    assert {keras.utils.standardize_dtype(array.dtype) for array in (output, weights)} == {dtype}
    weights = np.array(weights)
    assert (weights[..., ~np.tri(7, dtype=bool)] == 0).all() and np.isfinite(weights).all()


def test_gradients_pass_the_mask_and_agree_with_the_softmax_of_tensorflow():
    query, key, value = (tf.constant(array) for array in random_heads(queries=7, dtype="float64"))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(query)
        output, _ = scaled_dot_product_attention(query, key, value, mask=causal_mask(7))
        scores = tf.einsum("bhqw,bhkw->bhqk", query, key) / math.sqrt(3)
        added = tf.nn.softmax(scores - 1e9 * (1 - np.tri(7))) @ value
    ours, theirs = tape.gradient(output, query), tape.gradient(added, query)
    # float64; adding -1e9 costs nothing where it is multiplied by 0
    np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_a_blind_query_is_nan_and_its_neighbours_are_not():
    query, key, value = random_heads()
    mask = np.ones((1, 1, 5, 7), dtype=bool)
    mask[..., 2, :] = False
    output = np.array(scaled_dot_product_attention(query, key, value, mask=mask)[0])
    assert np.isnan(output[:, :, 2]).all() and np.isfinite(output[:, :, [0, 1, 3, 4]]).all()


def test_works_inside_a_symbolic_model_of_unknown_batch_and_length():
    query, key, value = random_heads(queries=7)
    inputs = [keras.Input((3, None, array.shape[-1])) for array in (query, key, value)]
    tokens = keras.Input((None,), dtype="int32")
    outputs = scaled_dot_product_attention(*inputs, mask=padding_mask(tokens))
    model = keras.Model([*inputs, tokens], outputs)
    ids = np.array([[1, 2, 3, 4, 0, 0, 0], [1, 2, 3, 4, 5, 6, 0]])
    wanted, _ = scaled_dot_product_attention(query, key, value, mask=padding_mask(ids))
    np.testing.assert_allclose(model([query, key, value, ids])[0], wanted, atol=1e-6)


def test_an_unknown_batch_agrees_with_a_known_one():
    query, key, value = random_heads()
    inputs = keras.Input((3, 5, 3)), keras.Input(batch_shape=(2, 3, 7, 3)), keras.Input((3, 7, 11))
    model = keras.Model(inputs, scaled_dot_product_attention(*inputs)[0])
    wanted, _ = scaled_dot_product_attention(query, key, value)
    np.testing.assert_allclose(model([query, key, value]), wanted, atol=1e-6)


def test_a_mask_passed_by_position_is_refused():
    query, key, value = random_heads(queries=7)
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        scaled_dot_product_attention(query, key, value, causal_mask(7))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((7, 7), bool), r"mask must have rank 4, got shape \(7, 7\)"),
        (np.ones((1, 1, 7, 6), bool),
         r"axis of the mask must be 1 or that of the weights \(2, 3, 7, 7\), got .*\(1, 1, 7, 6\)"),
        (np.ones((3, 1, 1, 7), bool), r"weights \(2, 3, 7, 7\), got shape \(3, 1, 1, 7\)"),
    ],
    ids=["rank", "keys", "batch"],
)  # fmt: skip
def test_a_mask_of_another_shape_is_refused(mask, message):
    query, key, value = random_heads(queries=7)
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(query, key, value, mask=mask)


def test_a_mask_of_larger_axes_than_the_weights_is_refused():
    query, key, value = (array[:1] for array in random_heads(queries=7))
    with pytest.raises(ValueError, match=r"weights \(1, 3, 7, 7\), got shape \(2, 1, 1, 7\)"):
        scaled_dot_product_attention(query, key, value, mask=np.ones((2, 1, 1, 7), bool))


def test_a_mask_of_numbers_is_refused():
    query, key, value = random_heads(queries=7)
    with pytest.raises(TypeError, match="mask must be bool with True = attend, got float32"):
        scaled_dot_product_attention(query, key, value, mask=np.ones((1, 1, 7, 7), "float32"))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(5, 3), (1, 7, 3), (7, 3)], r"share one rank .* got query \(5, 3\), key \(1, 7, 3\)"),
        ([(3,), (3,), (3,)], "one rank of at least 2"),
        ([(1, 5, 3), (2, 7, 3), (2, 7, 3)], r"same leading axes, got query \(1, 5, 3\)"),
        ([(2, 5, 3), (2, 7, 3), (1, 7, 3)], r"same leading axes, got .* value \(1, 7, 3\)"),
        ([(5, 3), (7, 2), (7, 3)], r"same width, got query \(5, 3\), key \(7, 2\)"),
        ([(5, 3), (7, 3), (6, 3)], r"same length, got .* key \(7, 3\), value \(6, 3\)"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_belong_together_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(*(np.ones(shape, "float32") for shape in shapes))
