"""A source of known entropy, and what a decoder learns from it with and without its mask.

In a Markov source the next state depends on the present one alone, so the best possible loss of
an honest predictor is known beforehand: the entropy rate. A lower one is proof of a leak. Sources:
Shannon (1948), section 7; Cover and Thomas (2006), section 4.2. Entropy is in nats.
"""

from dataclasses import dataclass

import keras
import numpy as np

from measured.stacks import Encoder
from measured.training import MaskedCrossEntropy, shift_right

NUM_STATES = 16
# Of the four states that may follow, in an order drawn for each state: 25 % of all 16. Every row
# having the same four makes the entropy -Σ p ln p = 0.898, whatever the stationary distribution.
STEP_PROBABILITIES = (0.67, 0.23, 0.07, 0.03)


@dataclass(frozen=True)
class LeakRun:
    """One training on the source. Losses are in nats a token, per epoch (epochs,)."""

    model: keras.Model
    training_loss: np.ndarray
    validation_loss: np.ndarray
    legal: float  # share of legal steps in what the model says when it runs free


def markov_source(seed, num_states=NUM_STATES, probabilities=STEP_PROBABILITIES):
    """Transition probabilities (from, to), float64: each row has `probabilities` and else zeros.

    Raises ValueError unless every state can be reached from every other.
    """
    if not np.isclose(sum(probabilities), 1) or min(probabilities) <= 0:
        raise ValueError(f"probabilities must be positive and sum to 1, got {probabilities}")
    if len(probabilities) > num_states:
        raise ValueError(f"{len(probabilities)} probabilities need as many of {num_states} states")
    rng = np.random.default_rng(seed)
    transitions = np.zeros((num_states, num_states))
    for row in transitions:
        row[rng.choice(num_states, len(probabilities), replace=False)] = probabilities
    if not np.all(np.linalg.matrix_power(np.eye(num_states) + transitions, num_states - 1) > 0):
        raise ValueError(f"the source of seed {seed} has states that cannot be reached from others")
    return transitions


def stationary_distribution(transitions):
    """The share of time spent in each state: transitions (from, to) -> (states,).

    The one solution of p · transitions = p with sum 1, if each state can be reached from each.
    """
    transitions = _refuse_no_transitions(transitions)
    states = len(transitions)
    equations = np.vstack([transitions.T - np.eye(states), np.ones(states)])
    return np.linalg.lstsq(equations, np.r_[np.zeros(states), 1.0], rcond=None)[0]


def entropy_rate(transitions):
    """Nats a step: the entropy of each row, weighted by the stationary distribution."""
    transitions = _refuse_no_transitions(transitions)
    logs = np.log(transitions, out=np.zeros_like(transitions), where=transitions > 0)
    return float(-stationary_distribution(transitions) @ np.sum(transitions * logs, axis=1))


def sample_chain(transitions, count, length, seed):
    """Chains from the stationary distribution: token ids (count, length), int32, state + 1."""
    transitions = _refuse_no_transitions(transitions)
    rng = np.random.default_rng(seed)
    start = np.broadcast_to(stationary_distribution(transitions), (count, len(transitions)))
    states = np.empty((count, length), dtype=np.int32)
    states[:, 0] = _draw(start, rng)
    for step in range(1, length):
        states[:, step] = _draw(transitions[states[:, step - 1]], rng)
    return states + 1


def legal_share(transitions, tokens):
    """Share of steps in token ids (batch, sequence) that the source can make."""
    states = np.asarray(tokens) - 1
    return float(np.mean(transitions[states[:, :-1], states[:, 1:]] > 0))


def chain_loss(transitions, tokens):
    """Mean -ln p of the steps in token ids (batch, sequence): the loss of one who knows the source.

    It scatters around the entropy rate, as every finite sample does.
    """
    states = np.asarray(tokens) - 1
    steps = transitions[states[:, :-1], states[:, 1:]]
    if not np.all(steps > 0):
        raise ValueError("the tokens have a step that the source cannot make")
    return float(-np.log(steps).mean())


def train_on_source(causal, seed, transitions=None, epochs=12, count=4_000, length=10):
    """Train one decoder, with its look-ahead mask or without: -> LeakRun.

    All else is equal: the chains, the order in which they come, the first weights. `count` chains
    are for training, and half as many for validation. Without the mask only the last token is
    still unseen when it has to be told: the best loss is the entropy rate / (length - 1).
    """
    transitions = markov_source(0) if transitions is None else transitions
    training = sample_chain(transitions, count, length, seed=[seed, 0])
    validation = sample_chain(transitions, count // 2, length, seed=[seed, 1])
    keras.utils.set_random_seed(seed)
    model = _language_model(len(transitions) + 1, causal)
    model.compile(keras.optimizers.Adam(3e-3), MaskedCrossEntropy())
    history = model.fit(
        *shift_right(training),
        validation_data=shift_right(validation),
        epochs=epochs,
        batch_size=50,
        verbose=0,
    ).history
    told = run_free(model, validation[:500, :1], length, seed)
    return LeakRun(
        model,
        np.array(history["loss"]),
        np.array(history["val_loss"]),
        legal_share(transitions, told),
    )


def run_free(model, first, length, seed):
    """Let the model go on alone: first tokens (batch, 1) -> token ids (batch, length).

    Each token is drawn from the model's own probabilities and then given back to it. What is not
    yet said is padding, which the model hides; padding itself is never drawn.
    """
    rng = np.random.default_rng(seed)
    tokens = np.zeros((len(first), length), dtype=np.int32)
    tokens[:, :1] = first
    for step in range(1, length):
        logits = model.predict_on_batch(tokens)[:, step - 1, 1:].astype("float64")
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        tokens[:, step] = 1 + _draw(odds / odds.sum(axis=-1, keepdims=True), rng)
    return tokens


def _language_model(vocab_size, causal):
    """Token ids (batch, sequence) -> logits (batch, sequence, vocab_size)."""
    stack = Encoder(vocab_size, 1, 32, 2, 64, dropout=0.0, norm="pre", causal=causal)
    tokens = keras.Input((None,), dtype="int32")
    return keras.Model(tokens, keras.layers.Dense(vocab_size, name="output")(stack(tokens)))


def _draw(probabilities, rng):
    """One index per row of probabilities (rows, choices)."""
    steps = np.cumsum(probabilities, axis=1)
    # The last sum may miss 1 by rounding; scaling the draw keeps the index inside the row.
    return np.sum(steps <= rng.random((len(steps), 1)) * steps[:, -1:], axis=1)


def _refuse_no_transitions(transitions):
    transitions = np.asarray(transitions, dtype=np.float64)
    if transitions.ndim != 2 or transitions.shape[0] != transitions.shape[1]:
        raise ValueError(f"transitions must be (from, to), got shape {transitions.shape}")
    if (transitions < 0).any() or not np.allclose(transitions.sum(axis=1), 1):
        raise ValueError("each row of transitions must be probabilities that sum to 1")
    return transitions
