"""The same weights give the same states in keras-hub's layers, which share no code with ours."""

import keras_hub
import numpy as np
import pytest

from measured.layers import DecoderLayer, EncoderLayer
from measured.masks import padding_mask
from measured.multihead import rotate
from measured.positions import positional_encoding
from measured.stacks import look_ahead_mask

TOLERANCE = 1e-5  # float32, states of size 1, sums of some ten terms
SOURCE = np.array([[5, 3, 8, 2, 9, 4, 0], [7, 1, 6, 0, 0, 0, 0]])
TARGET = np.array([[2, 9, 4, 6, 0], [8, 3, 0, 0, 0]])
SIZES = {"num_heads": 3, "intermediate_dim": 13}


def random(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def same_weights(ours, theirs, pairs):
    """Give both layers the same random weights, sublayer by sublayer."""
    rng = np.random.default_rng(5)
    for mine, others in pairs.items():
        shapes = [weight.shape for weight in getattr(ours, mine).get_weights()]
        values = [rng.normal(0, 0.3, shape).astype("float32") for shape in shapes]
        getattr(ours, mine).set_weights(values)
        for other in others:
            layer = getattr(theirs, other)
            layer.set_weights([values.pop(0) for _ in layer.get_weights()])
        assert values == []


FEED_FORWARD = ("_feedforward_intermediate_dense", "_feedforward_output_dense")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_layer(norm):
    ours = EncoderLayer(12, 3, 13, norm=norm)
    theirs = keras_hub.layers.TransformerEncoder(
        **SIZES, activation="relu", layer_norm_epsilon=1e-6, normalize_first=norm == "pre"
    )
    states = random(2, 7, 12, seed=0)
    ours(states)
    theirs(states)
    pairs = {
        "self_attention": ("_self_attention_layer",),
        "self_attention_norm": ("_self_attention_layer_norm",),
        "feed_forward": FEED_FORWARD,
        "feed_forward_norm": ("_feedforward_layer_norm",),
    }
    same_weights(ours, theirs, pairs)
    expected = theirs(states, padding_mask=SOURCE != 0)
    output = ours(states, attention_mask=padding_mask(SOURCE))
    np.testing.assert_allclose(output, expected, atol=TOLERANCE)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer(norm):
    ours = DecoderLayer(12, 3, 13, norm=norm)
    theirs = keras_hub.layers.TransformerDecoder(
        **SIZES, activation="relu", layer_norm_epsilon=1e-6, normalize_first=norm == "pre"
    )
    states, encoded = random(2, 5, 12, seed=1), random(2, 7, 12, seed=2)
    ours(states, encoded)
    theirs(states, encoded)
    pairs = {
        "self_attention": ("_self_attention_layer",),
        "self_attention_norm": ("_self_attention_layer_norm",),
        "cross_attention": ("_cross_attention_layer",),
        "cross_attention_norm": ("_cross_attention_layer_norm",),
        "feed_forward": FEED_FORWARD,
        "feed_forward_norm": ("_feedforward_layer_norm",),
    }
    same_weights(ours, theirs, pairs)
    expected = theirs(
        states,
        encoded,
        decoder_padding_mask=TARGET != 0,
        encoder_padding_mask=SOURCE != 0,
        use_causal_mask=True,
    )
    output = ours(
        states,
        encoded,
        self_attention_mask=look_ahead_mask(TARGET),
        cross_attention_mask=padding_mask(SOURCE),
    )
    np.testing.assert_allclose(output, expected, atol=TOLERANCE)


def test_sinusoids():
    theirs = keras_hub.layers.SinePositionEncoding()(np.zeros((1, 31, 14), "float32"))
    # float32 angles of up to 30 radians
    np.testing.assert_allclose(positional_encoding(31, 14), theirs[0], atol=TOLERANCE)


def test_rotary_positions_up_to_the_order_of_columns():
    heads = random(2, 3, 7, 10, seed=3)  # (batch, heads, sequence, key_dim)
    halves = np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1)
    theirs = keras_hub.layers.RotaryEmbedding(sequence_axis=2, feature_axis=-1)(halves)
    ours = np.array(rotate(heads, np.arange(7)))
    ours = np.concatenate([ours[..., 0::2], ours[..., 1::2]], axis=-1)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)
