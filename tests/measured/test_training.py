import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from keras import ops

from measured.training import (
    MaskedAccuracy,
    MaskedCrossEntropy,
    WarmupSchedule,
    exact_match,
    gradient_lengths,
    gradient_norms,
    shift_right,
    smooth_labels,
)

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(3, 7, 11)).astype("float32")
TARGETS = RNG.integers(1, 11, (3, 7))
PADDED = np.where(np.arange(7) < np.array([[7], [5], [2]]), TARGETS, 0)


def test_warm_up_by_hand():
    rate = WarmupSchedule(d_model=4, warmup_steps=4)
    # 0.5 · 1/8, 0.5 · 4/8 = 0.5 · 1/√4, 0.5 · 1/√16 at the steps 1, 4 and 16.
    assert [float(rate(step)) for step in (0, 3, 15)] == [0.0625, 0.25, 0.125]


def test_the_base_model_of_the_paper_peaks_at_seven_ten_thousandths():
    rates = WarmupSchedule(512, 4000)(np.arange(10_000))
    assert int(np.argmax(rates)) == 3999
    assert float(np.max(rates)) == pytest.approx(7e-4, rel=0.002)  # 1/√(512 · 4000) = 6.988e-4


@given(step=integers(0, 10**6), warmup_steps=integers(1, 10**4), d_model=integers(1, 1024))
@settings(deadline=None, max_examples=50)
def test_warm_up_is_equation_3_in_float64(step, warmup_steps, d_model):
    n = step + 1
    expected = 2 * d_model**-0.5 * min(n**-0.5, n * warmup_steps**-1.5)
    rate = float(WarmupSchedule(d_model, warmup_steps, factor=2.0)(step))
    assert rate == pytest.approx(expected, rel=2e-6)  # float32, a few roundings


def test_a_schedule_comes_back_from_its_configuration():
    schedule = WarmupSchedule(64, 200, factor=0.5)
    optimizer = keras.optimizers.Adam(schedule)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 4), "d_model must be a positive integer, got 0"),
        ((4, 0), "warmup_steps must be a positive integer, got 0"),
        ((4, 4, 0.0), r"factor must be positive, got 0\.0"),
    ],
)
def test_a_schedule_that_never_moves_is_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        WarmupSchedule(*arguments)


def test_each_wanted_token_is_the_one_after_the_given_one():
    given, wanted = shift_right(np.array([[1, 5, 6, 2], [1, 7, 2, 0]]))
    assert given.tolist() == [[1, 5, 6], [1, 7, 2]]
    assert wanted.tolist() == [[5, 6, 2], [7, 2, 0]]
    with pytest.raises(ValueError, match=r"target >= 2\), got shape \(3, 1\)"):
        shift_right(np.ones((3, 1)))


def test_smooth_labels_by_hand():
    labels = np.array(smooth_labels(np.array([[2, 0]]), vocab_size=4, smoothing=0.2))
    expected = [[[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]]]
    np.testing.assert_allclose(labels, expected, atol=1e-7)
    with pytest.raises(ValueError, match=r"below 1, got 1\.0"):
        smooth_labels(np.array([[2]]), 4, 1.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_equal_logits_cost_the_logarithm_of_their_number(smoothing):
    loss = MaskedCrossEntropy(smoothing)(TARGETS, np.full((3, 7, 11), 4.0, dtype="float32"))
    assert float(loss) == pytest.approx(np.log(11), abs=1e-6)


def test_a_loss_over_two_sequences_by_hand():
    half, quarter = [-99, 0, 0, -99], [-99, 0, np.log(2), -99 + np.log(2)]
    logits = np.array([[half, half, half], [quarter, half, half]], dtype="float32")
    targets = np.array([[1, 2, 1], [1, 0, 0]])
    # Three tokens of ln 2 and one of ln 3: a mean over tokens, not of the two sequences' means.
    expected = (3 * np.log(2) + np.log(3)) / 4
    assert float(MaskedCrossEntropy()(targets, logits)) == pytest.approx(expected, abs=1e-6)


def test_a_smoothed_loss_of_one_token_by_hand():
    probabilities = np.array([[[0.1, 0.6, 0.3]]])
    loss = MaskedCrossEntropy(0.3)(np.array([[1]]), np.log(probabilities).astype("float32"))
    expected = -(0.1 * np.log(0.1) + 0.8 * np.log(0.6) + 0.1 * np.log(0.3))
    assert float(loss) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_agrees_with_the_losses_of_keras(smoothing):
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)
    real = PADDED != 0
    expected = theirs(np.eye(11)[PADDED[real]], LOGITS[real])
    loss = MaskedCrossEntropy(smoothing)(PADDED, LOGITS)
    np.testing.assert_allclose(loss, expected, atol=1e-6)  # float32, a mean of 14 tokens


@given(more=integers(1, 13))
@settings(deadline=None, max_examples=10)
def test_more_padding_changes_no_loss_and_no_accuracy(more):
    targets = np.pad(PADDED, ((0, 0), (0, more)))
    rubbish = np.random.default_rng(more).normal(scale=30, size=(3, more, 11))
    logits = np.concatenate([LOGITS, rubbish.astype("float32")], axis=1)
    loss = MaskedCrossEntropy(0.1)
    np.testing.assert_allclose(loss(targets, logits), loss(PADDED, LOGITS), rtol=1e-6)
    assert accuracy((targets, logits)) == accuracy((PADDED, LOGITS))


def test_logits_under_padding_have_no_gradient():
    layer = keras.layers.Layer()
    layer.logits = keras.Variable(LOGITS[PADDED == 0])

    def loss():
        under = ops.scatter(np.argwhere(PADDED == 0), layer.logits, LOGITS.shape)
        return MaskedCrossEntropy(0.1)(PADDED, LOGITS + under)

    assert gradient_lengths([layer], loss) == [0]


def test_a_batch_of_nothing_but_padding_costs_nothing():
    assert float(MaskedCrossEntropy()(0 * TARGETS, LOGITS)) == 0


def test_the_loss_comes_back_from_its_configuration():
    again = keras.losses.deserialize(keras.losses.serialize(MaskedCrossEntropy(0.1)))
    assert isinstance(again, MaskedCrossEntropy) and again.smoothing == 0.1


def accuracy(*batches):
    metric = MaskedAccuracy()
    for targets, logits in batches:
        metric.update_state(targets, logits)
    return float(metric.result())


def test_accuracy_over_two_batches_of_unequal_length_by_hand():
    right = np.eye(4, dtype="float32")
    first = (np.array([[1, 2, 3]]), right[[[1, 2, 1]]])  # two of three
    second = (np.array([[3, 0, 0]]), right[[[3, 0, 0]]])  # one of one; padding does not count
    assert accuracy(first, second) == 0.75
    assert accuracy() == 0


def test_accuracy_takes_no_weights():
    with pytest.raises(ValueError, match="give no sample_weight"):
        MaskedAccuracy().update_state(TARGETS, LOGITS, sample_weight=1.0)


def test_one_wrong_token_spoils_an_exact_match():
    targets = np.array([[5, 6, 2], [5, 7, 2], [6, 2, 0], [6, 2, 0]])
    predicted = np.array([[5, 6, 2], [5, 6, 2], [6, 2, 0], [6, 2, 2]])
    assert exact_match(predicted, targets) == 0.5
    with pytest.raises(ValueError, match=r"got \(4, 2\) and \(4, 3\)"):
        exact_match(predicted[:, :2], targets)
    with pytest.raises(ValueError, match="batch >= 1"):
        exact_match(predicted[:0], targets[:0])


def test_the_length_of_a_gradient_by_hand():
    dense = keras.layers.Dense(1)
    dense.build((None, 2))
    inputs = np.array([[3.0, 4.0]], dtype="float32")
    other = keras.layers.Dense(1)
    other.build((None, 2))

    def loss():
        return ops.sum(dense(inputs)) + 2 * ops.sum(other(inputs))

    # d/dw Σ(w·x + b) = (3, 4, 1); the other layer counts twice.
    lengths = gradient_lengths([dense, other], loss)
    np.testing.assert_allclose(lengths, [np.sqrt(26), 2 * np.sqrt(26)], rtol=1e-6)


def test_gradients_of_a_seed_are_the_same_bits_again():
    once, again, other = (gradient_norms(2, "pre", seed) for seed in (0, 0, 1))
    assert once.shape == (2,) and once.dtype == np.float64
    np.testing.assert_array_equal(once, again)
    assert np.all(once != other)


def test_deep_layers_of_pre_norm_learn_less_and_of_post_norm_more():
    post, pre = (gradient_norms(12, norm, seed=0) for norm in ("post", "pre"))
    assert post[-1] > 1.5 * post[0]
    assert pre[-1] < pre[0] / 1.5
