import keras
import numpy as np
import pytest
from reference import decoder_layer, embed, encoder_layer, feed_forward

from measured.layers import DecoderLayer, EncoderLayer, FeedForward
from measured.leaks import future_leak, padding_leak
from measured.masks import causal_mask, padding_mask
from measured.multihead import MultiHeadAttention
from measured.stacks import Decoder, Encoder, PositionedEmbedding, look_ahead_mask

# Keras 3.15 saves a variable through `__array__`, which does not yet know NumPy 2's `copy`.
SOURCE = np.array([[5, 3, 8, 2, 9, 4, 0], [7, 1, 6, 0, 0, 0, 0]])
TARGET = np.array([[2, 9, 4, 6, 0], [8, 3, 0, 0, 0]])


def random(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def shaken(layer, seed=11, scale=0.3):
    """The built layer with random weights: at initialisation biases and offsets are zero."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(0, scale, w.shape) for w in layer.get_weights()])
    return layer


def small(stack, **changes):
    sizes = {"vocab_size": 11, "num_layers": 2, "d_model": 6, "num_heads": 3, "d_ff": 13}
    return stack(**{**sizes, **changes})


def exact(layer):
    """Weights in float64, by the names of the reference."""

    def arrays(part):
        return [np.array(weight, "float64") for weight in part.get_weights()]

    weights = {
        "attention": arrays(layer.self_attention),
        "feed_forward": arrays(layer.feed_forward),
        "norms": [arrays(layer.self_attention_norm), arrays(layer.feed_forward_norm)],
    }
    if isinstance(layer, DecoderLayer):
        weights["cross_attention"] = arrays(layer.cross_attention)
        weights["norms"].insert(1, arrays(layer.cross_attention_norm))
    return weights


# One contract for every layer: what it is made with, and what it is called with.
CONTRACT = {
    "multi-head": (
        MultiHeadAttention,
        {"num_heads": 3, "key_dim": 4, "value_dim": 5, "dropout": 0.3, "rotary": True},
        (random(2, 5, 13), random(2, 7, 17)),
        (2, 5, 13),
    ),
    "feed-forward": (FeedForward, {"d_model": 5, "d_ff": 13}, (random(2, 3, 5),), (2, 3, 5)),
    "embedding": (
        PositionedEmbedding,
        {"vocab_size": 11, "d_model": 5, "positions": "learned", "max_length": 7},
        (SOURCE,),
        (2, 7, 5),
    ),
    "encoder layer": (
        EncoderLayer,
        {"d_model": 6, "num_heads": 3, "d_ff": 13, "norm": "pre", "activation": "gelu"},
        (random(2, 7, 6),),
        (2, 7, 6),
    ),
    "decoder layer": (
        DecoderLayer,
        {"d_model": 6, "num_heads": 3, "d_ff": 13, "key_dim": 4, "attention_bias": False},
        (random(2, 5, 6), random(2, 7, 11)),
        (2, 5, 6),
    ),
    "encoder": (
        Encoder,
        {"vocab_size": 11, "num_layers": 2, "d_model": 6, "num_heads": 3, "d_ff": 13}
        | {"norm": "pre", "positions": "learned", "max_length": 17, "causal": True},
        (SOURCE,),
        (2, 7, 6),
    ),
    "decoder": (
        Decoder,
        {"vocab_size": 11, "num_layers": 2, "d_model": 6, "num_heads": 3, "d_ff": 13}
        | {"positions": "rotary", "embeddings_initializer": "normal", "attention_dropout": 0.2},
        (TARGET, random(2, 7, 11), SOURCE),
        (2, 5, 6),
    ),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_contract_of(name, tmp_path):
    kind, arguments, inputs, shape = CONTRACT[name]
    layer = kind(**arguments)
    first = np.array(layer(*inputs))
    assert first.shape == shape and len(layer.weights) == len(layer.get_weights())
    shaken(layer)
    eager = np.array(layer(*inputs))
    assert np.abs(eager - first).max() > 0.01  # the weights matter

    config = layer.get_config()
    assert {key: config[key] for key in arguments if key != "embeddings_initializer"} == {
        key: value for key, value in arguments.items() if key != "embeddings_initializer"
    }
    assert kind.from_config(config).get_config() == config

    symbolic = [keras.Input(array.shape[1:], dtype=array.dtype) for array in inputs]
    model = keras.Model(symbolic, layer(*symbolic))
    compiled = model.predict_on_batch(list(inputs))
    np.testing.assert_allclose(compiled, eager, atol=2e-5, rtol=1e-5)  # fused in another order

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict_on_batch(list(inputs)), compiled)

    drops = [part for part in layer._flatten_layers() if isinstance(part, keras.layers.Dropout)]
    moved = "training" in layer._call_signature.parameters and bool(drops)
    if moved:
        np.testing.assert_array_equal(layer(*inputs, training=False), eager)
        assert np.abs(layer(*inputs, training=True) - eager).max() > 1e-3
    assert moved == (name not in ("feed-forward", "embedding"))


def test_feed_forward_agrees_with_the_reference_and_sees_one_position():
    states = random(2, 7, 5)
    layer = FeedForward(5, 13)
    layer.build(states.shape)
    shaken(layer)
    weights = [weight.astype("float64") for weight in layer.get_weights()]
    for b in range(2):
        np.testing.assert_allclose(layer(states)[b], feed_forward(weights, states[b]), atol=1e-5)
    changed = states.copy()
    changed[:, 3] += 1
    moved = np.abs(layer(changed) - layer(states)).max((0, 2)) > 0
    assert moved.tolist() == [False, False, False, True, False, False, False]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("rotary", [False, True])
def test_encoder_layer_agrees_with_the_reference(norm, rotary):
    states = random(2, 7, 12)
    layer = EncoderLayer(12, 3, 13, norm=norm, rotary=rotary)
    layer(states)
    shaken(layer)
    mask = padding_mask(SOURCE)
    output = layer(states, attention_mask=mask)
    for b in range(2):
        visible = np.broadcast_to(np.array(mask)[b, 0], (7, 7))
        expected = encoder_layer(exact(layer), states[b].astype("float64"), visible, norm, rotary)
        np.testing.assert_allclose(output[b], expected, atol=1e-5)  # float32 against float64


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("rotary", [False, True])
def test_decoder_layer_agrees_with_the_reference(norm, rotary):
    states, encoded = random(2, 5, 12), random(2, 7, 11, seed=8)
    layer = DecoderLayer(12, 3, 13, norm=norm, rotary=rotary)
    layer(states, encoded)
    shaken(layer)
    ahead, padding = look_ahead_mask(TARGET), padding_mask(SOURCE)
    output = layer(states, encoded, self_attention_mask=ahead, cross_attention_mask=padding)
    for b in range(2):
        expected = decoder_layer(
            exact(layer),
            states[b].astype("float64"),
            encoded[b].astype("float64"),
            np.array(ahead)[b, 0],
            np.broadcast_to(np.array(padding)[b, 0], (5, 7)),
            norm,
            rotary,
        )
        np.testing.assert_allclose(output[b], expected, atol=1e-5)  # float32 against float64


def test_post_norm_rows_have_mean_zero_and_deviation_one_at_initialisation():
    output = np.array(EncoderLayer(8, 2, 13)(random(2, 5, 8)))
    np.testing.assert_allclose(output.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(output.std(-1), 1, atol=1e-4)  # epsilon in the variance


def test_embedding_agrees_with_the_reference():
    layer = PositionedEmbedding(11, 6)
    output = layer(SOURCE)
    table = layer.token_embedding.get_weights()[0].astype("float64")
    for b in range(2):
        np.testing.assert_allclose(output[b], embed(table, SOURCE[b]), atol=1e-6)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", None])
def test_embedding_in_pieces_equals_whole(positions):
    layer = PositionedEmbedding(11, 6, positions, max_length=7)
    whole = layer(SOURCE)
    for t in range(7):
        np.testing.assert_array_equal(layer(SOURCE[:, t : t + 1], start=t)[:, 0], whole[:, t])


def test_look_ahead_mask_of_four_tokens_by_hand():
    mask = np.array(look_ahead_mask(np.array([[3, 5, 0, 0]])))
    assert mask.shape == (1, 1, 4, 4)
    assert mask[0, 0].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", None])
@pytest.mark.parametrize("causal", [False, True])
def test_the_order_of_tokens_is_invisible_without_positions_and_without_a_causal_mask(
    positions, causal
):
    encoder = small(Encoder, positions=positions, causal=causal)
    tokens, order = np.array([[5, 3, 8, 2, 9, 4, 1]]), np.array([4, 2, 6, 0, 1, 5, 3])
    encoder(tokens)
    shaken(encoder)
    difference = np.abs(encoder(tokens[:, order]) - np.array(encoder(tokens))[:, order]).max()
    # float32 sums in another order, or another function
    assert difference < 1e-5 if positions is None and not causal else difference > 1e-3


@pytest.mark.parametrize(
    ("norm", "positions"),
    [("post", "sinusoidal"), ("pre", "learned"), ("post", "rotary"), ("pre", None)],
)
def test_no_causal_stack_shows_the_future(norm, positions):
    tokens, other = np.array([[5, 3, 8, 2, 9]]), np.array([[6, 4, 9, 3, 10]])
    encoded, source = random(1, 7, 6), SOURCE[:1]
    decoder = small(Decoder, norm=norm, positions=positions)
    decoder(tokens, encoded, source)
    shaken(decoder)
    assert future_leak(lambda ids: decoder(ids, encoded, source), tokens, other) is None
    encoder = small(Encoder, norm=norm, positions=positions, causal=True)
    encoder(tokens)
    shaken(encoder)
    assert future_leak(encoder, tokens, other) is None


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_that_is_not_causal_is_caught(stack):
    tokens, other = np.array([[5, 3, 8, 2, 9]]), np.array([[6, 4, 9, 3, 10]])
    model = small(stack, causal=False)
    inputs = (random(1, 7, 6), SOURCE[:1]) if stack is Decoder else ()
    model(tokens, *inputs)
    shaken(model)
    leak = future_leak(lambda ids: model(ids, *inputs), tokens, other)
    assert leak.position == 0 and leak.by > 0.001


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_lies_under_the_padding_changes_no_real_output(norm):
    encoder, decoder = small(Encoder, norm=norm), small(Decoder, norm=norm)
    encoded = random(2, 7, 6)
    decoder(TARGET, encoded, SOURCE)
    encoder(SOURCE)
    shaken(encoder), shaken(decoder)
    other = np.where(SOURCE == 10, 1, SOURCE + 1)
    mask, real = padding_mask(SOURCE), SOURCE != 0
    assert padding_leak(lambda ids: encoder(ids, padding_mask=mask), SOURCE, other, real) is None
    ahead = look_ahead_mask(TARGET)
    assert (
        padding_leak(
            lambda ids: decoder(ids, encoded, SOURCE, look_ahead_mask=ahead),
            TARGET,
            TARGET + 1,
            TARGET != 0,
        )
        is None
    )
    noise = np.where(real[..., None], encoded, random(2, 7, 6, seed=9))
    np.testing.assert_array_equal(decoder(TARGET, noise, SOURCE), decoder(TARGET, encoded, SOURCE))


def test_the_masks_made_from_tokens_are_those_given_by_hand():
    encoder, decoder = small(Encoder), small(Decoder)
    encoded = encoder(SOURCE)
    by_hand = encoder(SOURCE, padding_mask=padding_mask(SOURCE))
    np.testing.assert_array_equal(by_hand, encoded)
    made = decoder(TARGET, encoded, SOURCE)
    by_hand = decoder(
        TARGET,
        encoded,
        padding_mask=padding_mask(SOURCE),
        look_ahead_mask=look_ahead_mask(TARGET),
    )
    np.testing.assert_array_equal(by_hand, made)
    assert np.abs(decoder(TARGET, encoded, SOURCE, look_ahead_mask=causal_mask(5)) - made).max() > 0


@pytest.mark.parametrize(
    ("norm", "positions"),
    [("post", "sinusoidal"), ("pre", "learned"), ("post", "rotary"), ("pre", None)],
)
def test_step_by_step_with_a_cache_equals_all_at_once(norm, positions):
    decoder, encoded = small(Decoder, norm=norm, positions=positions), random(2, 7, 6)
    tokens = np.array([[2, 9, 4, 6, 3], [8, 3, 5, 1, 7]])
    decoder(tokens, encoded, SOURCE)
    shaken(decoder)
    whole = np.array(decoder(tokens, encoded, SOURCE))
    caches, memories = decoder.start_caches(encoded, 5)
    for t in range(5):
        states, caches = decoder.step(
            tokens[:, t : t + 1],
            t,
            caches,
            memories,
            look_ahead_mask=padding_mask(np.where(np.arange(5) <= t, tokens, 0)),
            padding_mask=padding_mask(SOURCE),
        )
        # float32, products of one row against products of five
        np.testing.assert_allclose(states[:, 0], whole[:, t], atol=1e-5)


def test_attention_weights_come_back_by_name_with_zeros_where_masks_hide():
    encoded, named = small(Encoder)(SOURCE, return_attention_scores=True)
    assert {name: tuple(weights.shape) for name, weights in named.items()} == {
        "encoder_layer1_self_attention": (2, 3, 7, 7),
        "encoder_layer2_self_attention": (2, 3, 7, 7),
    }
    for weights in map(np.array, named.values()):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        assert not weights[1, :, :, 3:].any() and weights[1, :, :, :3].all()
    _, named = small(Decoder)(TARGET, encoded, SOURCE, return_attention_scores=True)
    assert {name: tuple(weights.shape) for name, weights in named.items()} == {
        "decoder_layer1_self_attention": (2, 3, 5, 5),
        "decoder_layer1_cross_attention": (2, 3, 5, 7),
        "decoder_layer2_self_attention": (2, 3, 5, 5),
        "decoder_layer2_cross_attention": (2, 3, 5, 7),
    }
    own = np.array(named["decoder_layer2_self_attention"])
    assert not own[~np.broadcast_to(look_ahead_mask(TARGET), own.shape)].any()


def test_two_seeded_attention_matrices_printed_elsewhere():
    # Keras 3.15, layers made of keras.layers.MultiHeadAttention, printed with three digits.
    keras.utils.set_random_seed(10)
    layer = DecoderLayer(4, 2, 8, key_dim=4)
    states = np.random.default_rng(0).random((2, 3, 4)).astype("float32")
    encoded = random(2, 5, 4)
    _, weights, _ = layer(
        states, encoded, self_attention_mask=causal_mask(3), return_attention_scores=True
    )
    printed = [[1, 0, 0], [0.632, 0.368, 0], [0.38, 0.318, 0.302]]
    np.testing.assert_allclose(weights[0, 0], printed, atol=6e-4)
    _, weights, _ = layer(states, encoded, return_attention_scores=True)
    np.testing.assert_allclose(weights[0, 0, 0], [0.363, 0.341, 0.296], atol=6e-4)

    keras.utils.set_random_seed(10)
    sizes = {"num_layers": 2, "d_model": 4, "num_heads": 2, "d_ff": 8, "key_dim": 4}
    encoder = Encoder(32, attention_dropout=0.1, **sizes)
    source = np.array([[2, 1, 4, 3, 0]])
    encoded = encoder(source)
    keras.utils.set_random_seed(10)
    decoder = Decoder(35, attention_dropout=0.1, **sizes)
    _, named = decoder(np.array([[3, 2, 1]]), encoded, source, return_attention_scores=True)
    printed = [[1, 0, 0], [0.506, 0.494, 0], [0.382, 0.349, 0.269]]
    np.testing.assert_allclose(named["decoder_layer2_self_attention"][0, 0], printed, atol=6e-4)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: EncoderLayer(6, 3, 13, norm="middle"), "norm must be one of 'post', 'pre'; got"),
        (lambda: DecoderLayer(7, 3, 13), "d_model 7 is no multiple of num_heads 3: give a key_dim"),
        (lambda: EncoderLayer(6, 0, 13), "num_heads must be a positive integer, got 0"),
        (lambda: FeedForward(6, 0), "d_ff must be a positive integer, got 0"),
        (
            lambda: small(Encoder, positions="absolute"),
            "positions must be one of 'sinusoidal', 'learned', 'rotary', None; got 'absolute'",
        ),
        (lambda: small(Encoder, num_layers=0), "num_layers must be a positive integer, got 0"),
        (
            lambda: small(Encoder, positions="learned", max_length=6)(SOURCE),
            "a sequence of 7 is longer than the table of 6 learned positions",
        ),
        (
            lambda: small(Encoder, max_length=6)(SOURCE),
            "a sequence of 7 is longer than the table of 6 sinusoidal positions",
        ),
        (
            lambda: small(Encoder)(SOURCE[0]),
            r"tokens must be \(batch, sequence\), got shape \(7,\)",
        ),
        (
            lambda: PositionedEmbedding(11, 6)(SOURCE[0]),
            r"tokens must be \(batch, sequence\), got shape \(7,\)",
        ),
        (
            lambda: small(Decoder)(TARGET, random(2, 7, 6)),
            "the decoder must know which source positions are padding: give the token ids as",
        ),
        (
            lambda: EncoderLayer(6, 3, 13)(random(2, 7, 5)),
            r"states must be \(batch, sequence, 6\), got shape \(2, 7, 5\)",
        ),
        (
            lambda: EncoderLayer(6, 3, 13)(random(2, 7, 6), attention_mask=SOURCE != 0),
            r"mask must have rank 4, got shape \(2, 7\)",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
