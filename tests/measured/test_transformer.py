import keras
import numpy as np
import pytest

from measured.leaks import future_leak, padding_leak
from measured.masks import padding_mask
from measured.transformer import Transformer

# Keras 3.15 saves a variable through `__array__`, which does not yet know NumPy 2's `copy`.
SOURCE = np.array([[2, 1, 4, 3, 6, 5, 0], [3, 2, 1, 0, 0, 0, 0]])
TARGET = np.array([[3, 2, 1, 7, 0], [4, 8, 0, 0, 0]])
VARIANTS = [("post", "sinusoidal"), ("pre", "learned"), ("post", "rotary"), ("pre", None)]


def small(**changes):
    sizes = {"num_layers": 2, "d_model": 6, "num_heads": 3, "d_ff": 13}
    return Transformer(11, 17, **{**sizes, **changes})


def shaken(model, seed=11):
    """Built, with random weights: at initialisation biases and offsets are zero."""
    model((SOURCE, TARGET))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    return model


def test_the_small_configuration_has_7131_parameters_and_12_decoder_attentions():
    model = Transformer(30, 35, 6, 4, 4, 8, key_dim=4, max_length=6)
    source, target = np.array([[2, 1, 4, 3, 0]]), np.array([[3, 2, 1, 0, 0]])
    logits, named = model((source, target), return_attention_scores=True)
    assert tuple(logits.shape) == (1, 5, 35) and model.count_params() == 7_131
    assert model.encoder.embedding.count_params() == 120
    assert model.decoder.embedding.count_params() == 140
    assert [layer.count_params() for layer in model.encoder.layers] == [400] * 6
    assert [layer.count_params() for layer in model.decoder.layers] == [716] * 6
    assert model.output_projection.count_params() == 175
    in_decoder = [name for name in named if name.startswith("decoder")]
    assert len(in_decoder) == 12 and len(named) == 18
    assert {tuple(weights.shape) for weights in named.values()} == {(1, 4, 5, 5)}
    narrow = Transformer(30, 35, 6, 4, 4, 8)
    narrow.build(((1, 5), (1, 5)))
    assert narrow.count_params() == 3_027  # key_dim = 4 // 4 in place of 4


@pytest.mark.parametrize(("norm", "positions"), VARIANTS)
def test_saved_and_loaded_it_predicts_the_same(norm, positions, tmp_path):
    model = shaken(small(norm=norm, positions=positions, max_length=7, attention_bias=False))
    logits = np.array(model((SOURCE, TARGET)))
    assert logits.shape == (2, 5, 17)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded((SOURCE, TARGET)), logits)
    assert loaded.get_config() == model.get_config()


def test_tied_weights_are_one_table_before_and_after_loading(tmp_path):
    sizes = {"num_layers": 1, "d_model": 6, "num_heads": 3, "d_ff": 13}
    model = shaken(Transformer(11, 11, tie_weights=True, **sizes))
    free = shaken(Transformer(11, 11, **sizes))
    assert free.count_params() - model.count_params() == 11 * 6 + (11 * 6 + 11)
    states = np.random.default_rng(7).normal(size=(2, 5, 6)).astype("float32")
    table = model.encoder.embedding.token_embedding.get_weights()[0]
    np.testing.assert_allclose(model.logits(states), states @ table.T, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded((SOURCE, TARGET)), model((SOURCE, TARGET)))
    assert loaded.count_params() == model.count_params()
    shared = loaded.encoder.embedding.token_embedding
    assert loaded.decoder.embedding.token_embedding is shared


@pytest.mark.parametrize(("norm", "positions"), VARIANTS)
def test_no_output_knows_a_later_target_token(norm, positions):
    model = shaken(small(norm=norm, positions=positions))
    target, other = np.array([[3, 2, 1, 7, 9]]), np.array([[4, 3, 2, 8, 10]])
    assert future_leak(lambda ids: model((SOURCE[:1], ids)), target, other) is None


def test_a_model_that_is_not_causal_is_caught_and_an_inverted_mask_too():
    target, other = np.array([[3, 2, 1, 7, 9]]), np.array([[4, 3, 2, 8, 10]])
    open_model = shaken(small(causal=False))
    assert future_leak(lambda ids: open_model((SOURCE[:1], ids)), target, other).position == 0
    model = shaken(small())
    upside_down = np.triu(np.ones((1, 1, 5, 5), bool))
    leak = future_leak(
        lambda ids: model((SOURCE[:1], ids), look_ahead_mask=upside_down), target, other
    )
    assert leak.position == 0


def test_what_lies_under_the_padding_of_the_source_changes_no_logit():
    model, mask = shaken(small()), padding_mask(SOURCE)

    def logits_of(source):
        # Seven target tokens, so that positions of source and output pair up for the detector.
        target = np.array([[3, 2, 1, 7, 9, 8, 4]] * 2)
        return model((source, target), padding_mask=mask, cross_padding_mask=mask)

    other, real = np.where(SOURCE == 10, 1, SOURCE + 1), SOURCE != 0
    assert padding_leak(logits_of, SOURCE, other, real) is None
    np.testing.assert_array_equal(
        logits_of(SOURCE), model((SOURCE, np.array([[3, 2, 1, 7, 9, 8, 4]] * 2)))
    )


def test_a_target_mask_used_for_the_source_is_caught():
    model = shaken(small())
    source, target = SOURCE[:, :5] + 1, TARGET
    source[:, 3:] = 0
    wrong = padding_mask(target)  # same length, other padding
    other, real = source + 1, source != 0

    def logits_of(ids):
        right = padding_mask(source)
        return model((ids, target), padding_mask=right, cross_padding_mask=wrong)

    assert padding_leak(logits_of, source, other, real) is not None


def test_extra_padding_changes_nothing_but_rounding():
    model = shaken(small())
    longer = np.pad(SOURCE, ((0, 0), (0, 3))), np.pad(TARGET, ((0, 0), (0, 2)))
    np.testing.assert_allclose(model(longer)[:, :5], model((SOURCE, TARGET)), atol=1e-5)


def test_it_learns_to_copy_with_fit():
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    source = rng.integers(2, 11, (256, 5))
    given = np.pad(source[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    model = Transformer(11, 11, 1, 16, 2, 32, dropout=0.0, norm="pre")
    model.build(((None, 5), (None, 5)))
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        weighted_metrics=[],
    )
    model.optimizer.build(model.trainable_variables)
    history = model.fit((source, given), source, batch_size=32, epochs=12, verbose=0)
    losses = history.history["loss"]
    assert losses[0] > 1 and losses[-1] < 0.3  # ln 9 = 2.2 at the start


def test_predictions_of_two_lengths_work_with_one_compiled_function():
    model = shaken(small())
    for length in (3, 5):
        source = SOURCE[:, :length]
        logits = model.predict_on_batch((source, source))
        # compiled against eager: sums in another order
        np.testing.assert_allclose(logits, model((source, source)), atol=2e-5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: small(tie_weights=True), "one vocabulary, got source_vocab_size 11 and target_vo"),
        (lambda: small()((SOURCE, TARGET, TARGET)), r"the pair \(source, target\), got 3"),
        (lambda: shaken(small())(SOURCE), r"the pair \(source, target\), got one array"),
        (lambda: small(norm="mid"), "norm must be one of 'post', 'pre'; got 'mid'"),
        (
            lambda: small(positions="learned", max_length=6)((SOURCE, TARGET)),
            "a sequence of 7 is longer than the table of 6 learned positions",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
