"""The Transformer once more, from the papers alone: NumPy, float64, loops over heads, no Keras.

Vaswani et al. (2017), sections 3.1 to 3.3, arXiv:1706.03762; Xiong et al. (2020), figure 1, for
pre-norm, arXiv:2002.04745; Su et al. (2021), equations 15 and 34, arXiv:2104.09864. Everything is
about one sequence: states are (sequence, width), a mask is (query, key) of booleans.

Every function takes `kept`, a list to which it adds what backpropagation would need.
"""

import numpy as np


def softmax(row):
    """One row of scores; minus infinity is allowed."""
    powers = np.exp(row - np.max(row))
    return powers / powers.sum()


def attention(query, key, value, mask=None, kept=None):
    """Equation 1, one query after another: -> output, weights."""
    weights = np.zeros((len(query), len(key)))
    for i in range(len(query)):
        scores = np.array([query[i] @ key[j] for j in range(len(key))]) / np.sqrt(key.shape[1])
        if mask is not None:
            scores = np.where(mask[i], scores, -np.inf)
        weights[i] = softmax(scores)
    keep(kept, weights)
    return weights @ value, weights


def rotation(position, dim, base=10000.0):
    """The matrix of equation 15: a rotation in each plane of two neighbouring columns."""
    matrix = np.zeros((dim, dim))
    for i in range(dim // 2):
        angle = position * base ** (-2 * i / dim)
        plane = slice(2 * i, 2 * i + 2)
        matrix[plane, plane] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return matrix


def rotate(states, start=0):
    """Each row turned by the matrix of its position: (sequence, dim) -> the same shape."""
    return np.stack([rotation(start + m, states.shape[1]) @ row for m, row in enumerate(states)])


def multi_head(weights, query, value, key=None, mask=None, rotary=False, kept=None):
    """Section 3.2.2, one head after another: -> output, a list of one weight matrix a head.

    `weights` are the eight arrays in Keras's order: kernels (width, heads, dim), the last
    (heads, dim, width), each followed by its bias.
    """
    key = value if key is None else key
    w_query, b_query, w_key, b_key, w_value, b_value, w_output, b_output = weights
    keep(kept, query)
    if value is not query:
        keep(kept, value)
    heads, all_weights = [], []
    for h in range(w_query.shape[1]):
        q = query @ w_query[:, h] + b_query[h]
        k = key @ w_key[:, h] + b_key[h]
        v = value @ w_value[:, h] + b_value[h]
        if rotary:
            q, k = rotate(q), rotate(k)
        keep(kept, q, k, v)
        head, head_weights = attention(q, k, v, mask, kept)
        heads.append(head)
        all_weights.append(head_weights)
    concatenated = np.concatenate(heads, axis=1)
    keep(kept, concatenated)
    return concatenated @ w_output.reshape(-1, w_output.shape[-1]) + b_output, all_weights


def feed_forward(weights, states, kept=None):
    """Equation 2."""
    w1, b1, w2, b2 = weights
    hidden = np.maximum(0, states @ w1 + b1)
    keep(kept, states, hidden)
    return hidden @ w2 + b2


def layer_norm(weights, states, epsilon=1e-6, kept=None):
    """Ba et al. (2016), arXiv:1607.06450: each row by its own mean and variance."""
    scale, offset = weights
    keep(kept, states)
    rows = [(row - row.mean()) / np.sqrt(row.var() + epsilon) for row in states]
    return np.stack(rows) * scale + offset


def residual(norm, norm_weights, states, sublayer, kept=None):
    """Post-norm normalises the sum, pre-norm what goes into the sublayer."""
    if norm == "post":
        return layer_norm(norm_weights, states + sublayer(states), kept=kept)
    return states + sublayer(layer_norm(norm_weights, states, kept=kept))


def encoder_layer(weights, states, mask=None, norm="post", rotary=False, kept=None):
    """Section 3.1. `weights`: "attention", "feed_forward", "norms" (two of them)."""

    def attend(seen):
        return multi_head(weights["attention"], seen, seen, mask=mask, rotary=rotary, kept=kept)[0]

    def feed(seen):
        return feed_forward(weights["feed_forward"], seen, kept)

    states = residual(norm, weights["norms"][0], states, attend, kept)
    return residual(norm, weights["norms"][1], states, feed, kept)


def decoder_layer(
    weights, states, encoded, self_mask=None, cross_mask=None, norm="post", rotary=False, kept=None
):
    """Section 3.1. `weights`: "attention", "cross_attention", "feed_forward", "norms" (three)."""

    def attend(seen):
        own = weights["attention"]
        return multi_head(own, seen, seen, mask=self_mask, rotary=rotary, kept=kept)[0]

    def read(seen):
        return multi_head(weights["cross_attention"], seen, encoded, mask=cross_mask, kept=kept)[0]

    def feed(seen):
        return feed_forward(weights["feed_forward"], seen, kept)

    states = residual(norm, weights["norms"][0], states, attend, kept)
    states = residual(norm, weights["norms"][1], states, read, kept)
    return residual(norm, weights["norms"][2], states, feed, kept)


def positions(length, d_model):
    """Section 3.5, one number after another."""
    table = np.zeros((length, d_model))
    for place in range(length):
        for column in range(d_model):
            angle = place / 10000 ** (2 * (column // 2) / d_model)
            table[place, column] = np.sin(angle) if column % 2 == 0 else np.cos(angle)
    return table


def embed(table, tokens):
    """Section 3.4 and 3.5: rows of the table times √d_model, plus sinusoids."""
    rows = np.stack([table[token] for token in tokens])
    return rows * np.sqrt(table.shape[1]) + positions(len(tokens), table.shape[1])


def keep(kept, *arrays):
    """Note the arrays, unless nobody asks."""
    if kept is not None:
        kept.extend(arrays)


def count_kept(kept):
    """How many numbers were kept; an array that was kept twice counts once."""
    return sum(array.size for array in {id(array): array for array in kept}.values())
