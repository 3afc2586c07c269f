from dataclasses import asdict, replace

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from keras import layers, ops

from measured.classifier import (
    Classifier,
    ClassifierSize,
    audit,
    build_classifier,
    check_batch,
    closed_form,
    count_parts,
)
from measured.leaks import padding_leak
from measured.masks import padding_mask

# Different primes, so that swapped axes cannot pass; three heads of width 5.
SIZE = ClassifierSize(
    vocab_size=31, num_classes=5, d_model=15, num_heads=3, d_ff=7, num_layers=2, max_length=13
)
RNG = np.random.default_rng(3)
LENGTHS = np.array([[11], [4], [1]])
TOKENS = np.where(np.arange(11) < LENGTHS, RNG.integers(1, 31, (3, 11)), 0)


@pytest.fixture(scope="module")
def model():
    model = build_classifier(SIZE, seed=1)
    # Zero biases and unit scales would hide a wrong use of them.
    draw = np.random.default_rng(0)
    model.set_weights(
        [w + draw.normal(scale=0.3, size=w.shape).astype("float32") for w in model.get_weights()]
    )
    return model


def test_the_small_classifier_has_172739_parameters_by_hand():
    parts = closed_form(ClassifierSize())
    assert parts == {
        "token table": 5000 * 32,
        "positions": 128 * 32,
        "attention": 4 * (32 * 32 + 32),
        "feed-forward": 32 * 64 + 64 + 64 * 32 + 32,
        "normalisation": 2 * (32 + 32),
        "head": 32 * 3 + 3,
    }
    assert sum(parts.values()) == 172_739


@pytest.mark.parametrize("size", [SIZE, ClassifierSize(), replace(SIZE, num_layers=1)])
def test_the_closed_form_counts_what_keras_built(size):
    rows = audit(build_classifier(size, seed=0))
    assert all(ours == theirs for ours, theirs in rows.values())
    assert list(rows)[-1] == "total"
    assert rows["total"][0] == sum(ours for ours, _ in list(rows.values())[:-1])


def test_a_longer_text_costs_rows_of_the_position_table_only():
    short, long = (closed_form(replace(SIZE, max_length=length)) for length in (13, 23))
    assert long.pop("positions") - short.pop("positions") == 10 * 15
    assert long == short


def test_an_audit_finds_a_weight_that_belongs_to_no_part():
    class Odd(Classifier):
        def build(self, tokens_shape):
            self.forgotten = self.add_weight(shape=(8,))
            super().build(tokens_shape)

    model = Odd(**asdict(SIZE))
    model.build((None, 13))
    total = sum(count_parts(model).values())
    message = f"total: {total:,} parameters by the closed form, {total + 8:,} in Keras"
    with pytest.raises(ValueError, match=message):
        audit(model)


def test_probabilities_by_a_loop_over_texts(model):
    """Each text alone, without padding or mask: embedding, layers, a plain mean, the head."""
    kernel, bias = model.head.get_weights()
    got = np.array(model(TOKENS))
    for row, length in enumerate(LENGTHS[:, 0]):
        states = model.encoder.embedding(TOKENS[row : row + 1, :length])
        for layer in model.encoder.layers:
            states = layer(states)
        scores = np.mean(np.array(states, dtype="float64")[0], axis=0) @ kernel + bias
        expected = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(got[row], expected, atol=2e-6)  # float32, two layers


def test_probabilities_by_the_layers_of_keras(model):
    """The same weights in Keras's own attention, normalisation and pooling, post-norm."""
    states = model.encoder.embedding(TOKENS)
    mask = TOKENS != 0
    for ours in model.encoder.layers:
        theirs = layers.MultiHeadAttention(3, 5)
        theirs.build(states.shape, states.shape)
        theirs.set_weights(ours.self_attention.get_weights())
        update = theirs(states, states, attention_mask=np.repeat(mask[:, None], 11, axis=1))
        states = ours.self_attention_norm(states + update)
        widen, narrow = ours.feed_forward.widen, ours.feed_forward.narrow
        states = ours.feed_forward_norm(states + narrow(ops.relu(widen(states))))
    pooled = np.sum(states * mask[..., None], axis=1) / LENGTHS
    expected = ops.softmax(pooled @ model.head.kernel + model.head.bias)
    np.testing.assert_allclose(model(TOKENS), expected, atol=2e-6)  # float32


@given(more=integers(1, 2))
@settings(max_examples=2)
def test_more_padding_changes_no_probability(more):
    model = build_classifier(SIZE, seed=1)
    wider = np.pad(TOKENS, ((0, 0), (0, more)))
    np.testing.assert_allclose(model(wider), model(TOKENS), atol=1e-6)  # other order of sums


def test_what_lies_under_the_padding_moves_no_bit(model):
    mask, other = padding_mask(TOKENS), TOKENS % 30 + 1
    leak = padding_leak(
        lambda ids: model.encoder(ids, padding_mask=mask), TOKENS, other, TOKENS != 0
    )
    assert leak is None


def test_the_order_of_the_words_changes_the_probabilities(model):
    turned = TOKENS[:1, ::-1]
    assert np.abs(np.array(model(TOKENS[:1])) - np.array(model(turned))).max() > 1e-4


def test_attention_weights_come_back_by_name(model):
    probabilities, weights = model(TOKENS, return_attention_scores=True)
    assert probabilities.shape == (3, 5)
    assert {name: tuple(w.shape) for name, w in weights.items()} == {
        "encoder_layer1_self_attention": (3, 3, 11, 11),
        "encoder_layer2_self_attention": (3, 3, 11, 11),
    }


def test_a_seed_gives_the_first_weights():
    first, same, other = (build_classifier(SIZE, seed).get_weights() for seed in (4, 4, 5))
    assert all(map(np.array_equal, first, same))
    assert not np.array_equal(first[0], other[0])


def test_a_model_saved_by_keras_comes_back(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.size == SIZE and again.get_config() == {**model.get_config()}
    np.testing.assert_array_equal(again(TOKENS), model(TOKENS))


def test_the_graph_computes_what_eager_calls_compute(model):
    np.testing.assert_allclose(model.predict_on_batch(TOKENS), model(TOKENS), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_a_good_batch_comes_back_as_int32(dtype):
    batch = check_batch(TOKENS.astype(dtype), 31, 11)
    assert batch.dtype == np.int32
    np.testing.assert_array_equal(batch, TOKENS)


def test_a_batch_may_be_a_tensor_or_a_list():
    assert check_batch(ops.convert_to_tensor([[1, 0]]), 2, 2).tolist() == [[1, 0]]
    assert check_batch([[1, 0]], 2, 2).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (TOKENS[0], ValueError, r"tokens must be \(batch, sequence\), got shape \(11,\)"),
        (TOKENS[None], ValueError, r"got shape \(1, 3, 11\)"),
        (TOKENS.astype(float), TypeError, "tokens must be integers, got float64"),
        (TOKENS > 0, TypeError, "tokens must be integers, got bool"),
        (TOKENS[:0], ValueError, r"at least one text, got shape \(0, 11\)"),
        (np.ones((2, 14), int), ValueError, "a sequence must have 1 to 13 tokens, got 14"),
        (np.ones((2, 0), int), ValueError, "a sequence must have 1 to 13 tokens, got 0"),
        (
            [[1, 2], [3, -1]],
            ValueError,
            r"ids must be 0 to 30, got -1 at \(batch, sequence\) \[1, 1\]",
        ),
        ([[1, 31], [3, 1]], ValueError, r"ids must be 0 to 30, got 31 at .* \[0, 1\]"),
        ([[1, 2], [0, 0]], ValueError, r"needs a real token, got only padding \(0\) at batch 1"),
    ],
)
def test_a_bad_batch_is_refused_with_its_place(tokens, error, message):
    with pytest.raises(error, match=message):
        check_batch(tokens, 31, 13)


def test_ids_too_large_for_int32_do_not_wrap_round():
    with pytest.raises(ValueError, match="got 4294967297"):
        check_batch(np.array([[2**32 + 1]]), 31, 13)


def test_the_sizes_are_the_arguments_of_the_model():
    model = Classifier(**asdict(SIZE))
    assert model.size == SIZE
