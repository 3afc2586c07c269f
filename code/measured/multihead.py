"""Several attentions side by side, each in a projection of its own, and one projection of it all.

`MultiHeadAttention` takes the arguments of Keras's layer and keeps its weights in the same order
and shapes, so that `set_weights(theirs.get_weights())` makes the two comparable. Sources: Vaswani
et al. (2017), section 3.2.2, arXiv:1706.03762; for rotary positions Su et al. (2021),
arXiv:2104.09864, section 3.4.2.
"""

import math

import keras
import numpy as np
from keras import ops

from measured.attention import scaled_dot_product_attention


def split_heads(projected, num_heads):
    """Deal the width out: (batch, sequence, heads · dim) -> (batch, heads, sequence, dim)."""
    batch, sequence, width = ops.shape(projected)
    dealt = ops.reshape(projected, (batch, sequence, num_heads, width // num_heads))
    return ops.transpose(dealt, (0, 2, 1, 3))


def merge_heads(heads):
    """Lay the heads end to end: (batch, heads, sequence, dim) -> (batch, sequence, heads · dim)."""
    batch, num_heads, sequence, dim = ops.shape(heads)
    return ops.reshape(ops.transpose(heads, (0, 2, 1, 3)), (batch, sequence, num_heads * dim))


def rotate(heads, positions, base=10000.0):
    """Turn columns 2i and 2i+1 by position · base^(-2i/dim): heads (batch, heads, sequence, dim).

    `measured.positions.rotary` in `keras.ops`: positions (sequence,) may be known only when a
    graph runs, as in cached decoding. Angles are float32, off by some 1e-7 · position.
    """
    dim = heads.shape[-1]
    rates = base ** (-np.arange(0, dim, 2) / dim)
    angles = ops.cast(positions, "float32")[:, None] * rates.astype("float32")
    cosine, sine = ops.cast(ops.cos(angles), heads.dtype), ops.cast(ops.sin(angles), heads.dtype)
    first, second = heads[..., 0::2], heads[..., 1::2]
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return ops.reshape(ops.stack(turned, axis=-1), ops.shape(heads))


def refuse_non_positive(**sizes):
    """Raise unless every named size is an integer of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


@keras.saving.register_keras_serializable(package="measured")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention: query (batch, query, width) and value (batch, key, any width) ->
    output (batch, query, width).

    The layer never makes a mask: `measured.stacks` does. `call` is three methods in a row,
    `project_query`, `project_key_value` and `attend`; cached decoding calls them one by one.

    Args:
        num_heads: How many attentions.
        key_dim: Width of query and key in each head, not in all heads together.
        value_dim: Width of the value in each head; `key_dim` unless given.
        use_bias: Whether the four projections add a bias.
        dropout: Rate of dropout on the attention weights.
        rotary: Whether positions turn query and key. Needs an even `key_dim`.
        kernel_initializer: For the four kernels, a fresh seed for each.

    Call arguments:
        query, value: What asks, and what is mixed.
        key: What the query is compared with (batch, key, any width); `value` unless given.
        attention_mask: Boolean, True = attend, rank four, each axis 1 or that of
            (batch, heads, query, key).
        return_attention_scores: Whether to return the weights too, (batch, heads, query, key).
            Keras's name; they are what softmax makes of the scores, before dropout.

    Raises:
        ValueError: For a size that is not a positive integer, an odd `key_dim` with rotary, an
            input that is not of rank three.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        use_bias=True,
        dropout=0.0,
        rotary=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        value_dim = key_dim if value_dim is None else value_dim
        refuse_non_positive(num_heads=num_heads, key_dim=key_dim, value_dim=value_dim)
        if rotary and key_dim % 2:
            raise ValueError(f"rotary positions turn pairs: key_dim must be even, got {key_dim}")
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim
        self.use_bias, self.dropout, self.rotary = use_bias, dropout, rotary
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        for name, shape in (("query", query_shape), ("key", key_shape), ("value", value_shape)):
            _refuse_rank(name, shape)
        heads, width = self.num_heads, query_shape[-1]
        self.query_weights = self._projection("query", (width,), (heads, self.key_dim))
        self.key_weights = self._projection("key", (key_shape[-1],), (heads, self.key_dim))
        self.value_weights = self._projection("value", (value_shape[-1],), (heads, self.value_dim))
        if self.dropout:
            self.attention_dropout = keras.layers.Dropout(self.dropout)
        self.output_weights = self._projection("output", (heads, self.value_dim), (width,))
        self.built = True

    def _projection(self, name, inputs, outputs):
        draw = self.kernel_initializer.clone()

        def as_matrix(shape, dtype=None):
            # Glorot's limit is about the matrix that all heads form. The shape with heads would
            # be read as a convolution's; Keras's own layer does so before 3.15.
            matrix = draw((math.prod(inputs), math.prod(outputs)), dtype=dtype)
            return ops.reshape(matrix, shape)

        kernel = self.add_weight(
            shape=(*inputs, *outputs), initializer=as_matrix, name=f"{name}_kernel"
        )
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(shape=outputs, initializer="zeros", name=f"{name}_bias")

    def call(
        self,
        query,
        value,
        key=None,
        *,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        for name, states in (("query", query), ("value", value)):
            _refuse_rank(name, states.shape)
        keys, values = self.project_key_value(value, key)
        queries = self.project_query(query)
        output, weights = self.attend(
            queries, keys, values, attention_mask=attention_mask, training=training
        )
        return (output, weights) if return_attention_scores else output

    def project_query(self, query, start=0):
        """(batch, query, width) -> (batch, heads, query, key_dim). The first stands at `start`."""
        heads = split_heads(_project(query, *self.query_weights), self.num_heads)
        return self._place(heads, start)

    def project_key_value(self, value, key=None, start=0):
        """-> keys (batch, heads, key, key_dim), values (batch, heads, key, value_dim).

        What a cache keeps: later queries need nothing else of these tokens.
        """
        key = value if key is None else key
        keys = split_heads(_project(key, *self.key_weights), self.num_heads)
        values = split_heads(_project(value, *self.value_weights), self.num_heads)
        return self._place(keys, start), values

    def attend(self, queries, keys, values, *, attention_mask=None, training=None):
        """Projected heads -> output (batch, query, width), weights (batch, heads, query, key)."""
        mixed, weights = scaled_dot_product_attention(queries, keys, values, mask=attention_mask)
        if self.dropout:
            mixed = ops.matmul(self.attention_dropout(weights, training=training), values)
        return _project(merge_heads(mixed), *self.output_weights), weights

    def _place(self, heads, start):
        if not self.rotary:
            return heads
        return rotate(heads, start + ops.arange(ops.shape(heads)[2]))

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "use_bias": self.use_bias,
            "dropout": self.dropout,
            "rotary": self.rotary,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def _project(states, kernel, bias):
    """One matrix product for all heads: (batch, sequence, width) -> (batch, sequence, columns).

    The kernel is (width, heads, dim) or, after the heads are merged, (heads, dim, width).
    """
    projected = ops.matmul(states, ops.reshape(kernel, (states.shape[-1], -1)))
    return projected if bias is None else projected + ops.reshape(bias, (-1,))


def _refuse_rank(name, shape):
    if len(shape) != 3:
        raise ValueError(f"{name} must be (batch, sequence, width), got shape {tuple(shape)}")
