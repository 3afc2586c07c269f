import keras
import numpy as np
import pytest

from measured.leaks import future_leak
from measured.markov import (
    STEP_PROBABILITIES,
    chain_loss,
    entropy_rate,
    legal_share,
    markov_source,
    run_free,
    sample_chain,
    stationary_distribution,
    train_on_source,
)

# In balance 0.1 · 5/6 = 0.5 · 1/6.
WEATHER = np.array([[0.9, 0.1], [0.5, 0.5]])
SOURCE = markov_source(0)


class Successor:
    """Says with near certainty that state s is followed by s + 1, and would rather say padding."""

    def __init__(self, states):
        self.states, self.seen = states, []

    def predict_on_batch(self, tokens):
        self.seen.append(tokens.copy())
        logits = 50 * np.eye(self.states + 1)[tokens % self.states + 1]
        logits[:, :, 0] = 99
        return logits.astype("float32")


def test_stationary_distribution_of_two_states_by_hand():
    np.testing.assert_allclose(stationary_distribution(WEATHER), [5 / 6, 1 / 6], atol=1e-14)


def test_entropy_rate_of_two_states_by_hand():
    dry = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert entropy_rate(WEATHER) == pytest.approx(5 / 6 * dry + np.log(2) / 6, abs=1e-14)


def test_a_cycle_has_no_entropy_although_it_never_settles():
    cycle = np.roll(np.eye(3), 1, axis=1)
    np.testing.assert_allclose(stationary_distribution(cycle), np.full(3, 1 / 3), atol=1e-14)
    assert entropy_rate(cycle) == 0


def test_the_source_stays_where_many_steps_lead():
    after_many = np.linalg.matrix_power(SOURCE, 1000)
    for row in after_many:
        np.testing.assert_allclose(row, stationary_distribution(SOURCE), atol=1e-12)


def test_every_state_of_the_source_has_the_same_four_probabilities():
    assert SOURCE.shape == (16, 16)
    for row in SOURCE:
        assert sorted(row[row > 0], reverse=True) == list(STEP_PROBABILITIES)
    assert (SOURCE > 0).mean() == 0.25


def test_the_entropy_rate_of_the_source_is_that_of_one_row():
    # 0.67, 0.23, 0.07, 0.03: 0.26832 + 0.33803 + 0.18615 + 0.10520
    assert entropy_rate(SOURCE) == pytest.approx(0.89769, abs=1e-5)


def test_a_source_that_falls_apart_is_refused():
    with pytest.raises(ValueError, match="seed 0 has states that cannot be reached from others"):
        markov_source(0, num_states=7, probabilities=(1.0,))


@pytest.mark.parametrize(
    ("probabilities", "text"),
    [((0.5, 0.4), "sum to 1"), ((1.5, -0.5), "positive"), ((0.2,) * 5, "need as many of 4 states")],
)
def test_probabilities_that_are_none_are_refused(probabilities, text):
    with pytest.raises(ValueError, match=text):
        markov_source(0, num_states=4, probabilities=probabilities)


@pytest.mark.parametrize(
    ("transitions", "text"),
    [
        (np.ones((2, 3)) / 3, r"must be \(from, to\), got shape \(2, 3\)"),
        (np.ones((2, 2)), "sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "must be probabilities"),
    ],
)
def test_transitions_that_are_none_are_refused(transitions, text):
    with pytest.raises(ValueError, match=text):
        entropy_rate(transitions)


def test_chains_take_the_steps_of_the_source_as_often_as_it_says():
    tokens = sample_chain(SOURCE, 4000, 11, seed=3)
    assert tokens.dtype == np.int32 and tokens.shape == (4000, 11)
    counts = np.zeros((16, 16))
    np.add.at(counts, (tokens[:, :-1] - 1, tokens[:, 1:] - 1), 1)
    assert not counts[SOURCE == 0].any()
    # 40,000 steps: five standard errors of the share of each step.
    expected = stationary_distribution(SOURCE)[:, None] * SOURCE
    assert np.all(np.abs(counts / 40_000 - expected) < 5 * np.sqrt(expected / 40_000) + 1e-9)


def test_chains_are_stationary_from_the_first_token_to_the_last():
    tokens = sample_chain(SOURCE, 20_000, 5, seed=4)
    for column in tokens.T:
        share = np.bincount(column - 1, minlength=16) / 20_000
        np.testing.assert_allclose(share, stationary_distribution(SOURCE), atol=0.02)  # > 5 errors


def test_a_seed_gives_the_same_chains_again_and_another_gives_others():
    once, again, other = (sample_chain(SOURCE, 7, 11, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(once, again)
    assert np.any(once != other)


def test_legal_steps_by_hand():
    one_way = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    # All but 1→3.
    assert legal_share(one_way, [[1, 2, 3, 1], [1, 1, 3, 1]]) == 5 / 6


def test_the_loss_of_one_who_knows_the_source_by_hand():
    # Steps 1→1, 1→2, 2→1.
    loss = chain_loss(WEATHER, [[1, 1, 2, 1]])
    assert loss == pytest.approx(-(np.log(0.9) + np.log(0.1) + np.log(0.5)) / 3, abs=1e-14)


def test_the_loss_of_one_who_knows_the_source_tends_to_the_entropy_rate():
    # 90,000 steps of standard deviation 0.84: five standard errors.
    assert chain_loss(SOURCE, sample_chain(SOURCE, 10_000, 10, seed=6)) == pytest.approx(
        entropy_rate(SOURCE), abs=0.014
    )


def test_a_step_that_the_source_cannot_make_has_no_loss():
    with pytest.raises(ValueError, match="a step that the source cannot make"):
        chain_loss(np.eye(2), [[1, 2]])


def test_a_free_run_gives_the_model_its_own_tokens_and_nothing_of_the_future():
    model = Successor(5)
    tokens = run_free(model, np.array([[1], [4]]), length=4, seed=0)
    assert tokens.tolist() == [[1, 2, 3, 4], [4, 5, 1, 2]]
    assert [seen[0].tolist() for seen in model.seen] == [[1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 3, 0]]


def test_a_free_run_draws_from_the_probabilities_of_the_model():
    class Weather:
        def predict_on_batch(self, tokens):
            return np.log(np.hstack([[[0.3], [0.3]], WEATHER]))[tokens - 1]

    tokens = run_free(Weather(), np.full((9000, 1), 2), length=3, seed=0)
    # From state 2: 0.5, then 0.5 · 0.9 + 0.5 · 0.5; five standard errors of 9,000 draws.
    np.testing.assert_allclose((tokens == 1).mean(axis=0), [0, 0.5, 0.7], atol=0.026)


@pytest.fixture(scope="module")
def runs():
    return {causal: train_on_source(causal, 1, epochs=2, count=300) for causal in (True, False)}


def test_the_leak_detector_sees_the_missing_mask(runs):
    tokens = np.array([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])
    assert future_leak(runs[True].model, tokens, 17 - tokens) is None
    assert future_leak(runs[False].model, tokens, 17 - tokens).position == 0


def test_with_and_without_the_mask_nothing_else_differs(runs):
    shapes = [[w.shape for w in run.model.get_weights()] for run in runs.values()]
    assert shapes[0] == shapes[1]
    for run in runs.values():
        assert run.training_loss.shape == run.validation_loss.shape == (2,)
        assert 0 <= run.legal <= 1


def test_the_loss_of_the_history_is_that_of_the_model_by_hand(runs):
    # Keras's own loss for sparse targets; chains of equal length have no padding.
    chains = sample_chain(SOURCE, 150, 10, seed=[1, 1])
    logits = runs[True].model.predict(chains[:, :-1], verbose=0)
    losses = keras.losses.sparse_categorical_crossentropy(chains[:, 1:], logits, from_logits=True)
    assert np.mean(losses) == pytest.approx(runs[True].validation_loss[-1], abs=1e-5)  # float32


def test_a_seed_trains_to_the_same_bits_again(runs):
    again = train_on_source(True, 1, epochs=2, count=300)
    for one, two in zip(again.model.get_weights(), runs[True].model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert again.legal == runs[True].legal
