"""BERT's encoder once more, in NumPy and float64, straight from a checkpoint's tensors.

It shares no line with `measured.bert`: what the two agree on is neither Keras's doing nor that of
our mapping of weights. Source: Devlin et al. (2019), arXiv:1810.04805; Vaswani et al. (2017),
section 3.2; Hendrycks and Gimpel (2016), arXiv:1606.08415.
"""

import numpy as np
from scipy.special import erf


def all_states_float64(tensors, config, tokens, segments=None):
    """States of every layer: tokens (batch, sequence) -> list of num_layers + 1 arrays
    (batch, sequence, d_model), the first of them the normalised embeddings.

    `tensors` are a checkpoint's, name -> array; of the config, heads, layers, epsilon and the
    activation count.
    """
    tokens = np.asarray(tokens)
    segments = np.zeros_like(tokens) if segments is None else np.asarray(segments)
    weights = {name: np.asarray(tensor, dtype="float64") for name, tensor in tensors.items()}
    tables = [weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "token_type")]
    places = weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    states = tables[0][tokens] + tables[1][segments] + places
    found = [_norm(states, weights, "embeddings.LayerNorm", config.epsilon)]
    for number in range(config.num_layers):
        found.append(_layer(found[-1], tokens != 0, weights, f"encoder.layer.{number}", config))
    return found


def _layer(states, real, weights, name, config):
    query, key, value = (
        _heads(_dense(states, weights, f"{name}.attention.self.{role}"), config.num_heads)
        for role in ("query", "key", "value")
    )
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(real[:, None, None, :], scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = powers / powers.sum(axis=-1, keepdims=True) @ value
    mixed = mixed.swapaxes(1, 2).reshape(states.shape)
    update = _dense(mixed, weights, f"{name}.attention.output.dense")
    norm = f"{name}.attention.output.LayerNorm"
    states = _norm(states + update, weights, norm, config.epsilon)
    hidden = _gelu(_dense(states, weights, f"{name}.intermediate.dense"), config.activation)
    update = _dense(hidden, weights, f"{name}.output.dense")
    return _norm(states + update, weights, f"{name}.output.LayerNorm", config.epsilon)


def _dense(states, weights, name):
    rows = states.reshape(-1, states.shape[-1])  # one product: NumPy would make one a sentence
    product = rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return product.reshape(*states.shape[:2], -1)


def _heads(states, num_heads):
    return states.reshape(*states.shape[:2], num_heads, -1).swapaxes(1, 2)


def _norm(states, weights, name, epsilon):
    centred = states - states.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + epsilon)
    return weights[f"{name}.weight"] * centred / deviation + weights[f"{name}.bias"]


def _gelu(x, activation):
    if activation == "gelu":
        return x * 0.5 * (1 + erf(x / np.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
