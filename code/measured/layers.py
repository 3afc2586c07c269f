"""One layer of a Transformer: feed-forward network, encoder layer, decoder layer.

Their masks are given by hand; the stacks of `measured.stacks` make them from token ids.
Sources: Vaswani et al. (2017), sections 3.1, 3.3 and 5.4, arXiv:1706.03762; pre-norm: Xiong et al.
(2020), arXiv:2002.04745.
"""

import keras
from keras import ops

from measured.multihead import MultiHeadAttention, refuse_non_positive

NORMS = ("post", "pre")


@keras.saving.register_keras_serializable(package="measured")
class FeedForward(keras.layers.Layer):
    """Two products with an activation between, at each position alone: (batch, sequence, d_model)
    -> the same shape.

    Args:
        d_model: Width of input and output.
        d_ff: Width between.
        activation: Of the wide layer. In Keras "gelu" is the exact one, with the error function.
    """

    def __init__(self, d_model, d_ff, activation="relu", **kwargs):
        super().__init__(**kwargs)
        refuse_non_positive(d_model=d_model, d_ff=d_ff)
        self.d_model, self.d_ff = d_model, d_ff
        self.activation = keras.activations.get(activation)
        self.widen = keras.layers.Dense(d_ff, activation=self.activation)
        self.narrow = keras.layers.Dense(d_model)

    def build(self, states_shape):
        _refuse_states("states", states_shape, self.d_model)
        self.widen.build(states_shape)
        self.narrow.build((*states_shape[:-1], self.d_ff))
        self.built = True

    def call(self, states):
        return self.narrow(self.widen(states))

    def get_config(self):
        activation = keras.activations.serialize(self.activation)
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "activation": activation,
        }


class ResidualLayer(keras.layers.Layer):
    """What encoder and decoder layer share: sublayers, each inside a residual connection.

    Post-norm, the paper's: norm(states + dropout(sublayer(states))).
    Pre-norm: states + dropout(sublayer(norm(states))).

    Args:
        d_model: Width of input and output.
        num_heads: How many attentions each attention sublayer runs.
        d_ff: Width inside the feed-forward network.
        key_dim: Width of each head; d_model // num_heads unless given, which must then be whole.
        dropout: Rate on what each sublayer adds. The paper's base model has 0.1.
        attention_dropout: Rate on the attention weights; the paper does not mention any.
        norm: "post" or "pre".
        activation: Of the feed-forward network.
        attention_bias: Whether attention projections have biases; the paper's formulas have none.
        rotary: Whether positions turn query and key of self-attention.
        epsilon: Of layer normalisation, added to the variance.

    Raises:
        ValueError: For an unknown `norm`, a size that is not a positive integer, a `d_model` that
            `num_heads` does not divide while `key_dim` is not given.
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_ff,
        key_dim=None,
        dropout=0.1,
        attention_dropout=0.0,
        norm="post",
        activation="relu",
        attention_bias=True,
        rotary=False,
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        refuse_non_positive(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        refuse_unknown("norm", norm, NORMS)
        self.d_model, self.num_heads, self.d_ff = d_model, num_heads, d_ff
        self.key_dim = share_of_width(d_model, num_heads) if key_dim is None else key_dim
        self.dropout, self.attention_dropout, self.norm = dropout, attention_dropout, norm
        self.activation = keras.activations.get(activation)
        self.attention_bias, self.rotary, self.epsilon = attention_bias, rotary, epsilon

    def _attention(self, rotary=False):
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            use_bias=self.attention_bias,
            dropout=self.attention_dropout,
            rotary=rotary,
        )

    def _norm(self):
        return keras.layers.LayerNormalization(epsilon=self.epsilon)

    def _before(self, norm, states):
        """What the sublayer is given."""
        return norm(states) if self.norm == "pre" else states

    def _after(self, norm, states, update, training):
        """What the residual connection makes of the sublayer's output."""
        states = states + self.drop(update, training=training)
        return states if self.norm == "pre" else norm(states)

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "key_dim": self.key_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "norm": self.norm,
            "activation": keras.activations.serialize(self.activation),
            "attention_bias": self.attention_bias,
            "rotary": self.rotary,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable(package="measured")
class EncoderLayer(ResidualLayer):
    """Self-attention, then feed-forward: states (batch, sequence, d_model) -> the same shape.

    Arguments: see `ResidualLayer`.

    Call arguments:
        states: What the layer below gave.
        attention_mask: Boolean, True = attend, rank four; `measured.masks.padding_mask(tokens)`.
            No tokens reach this layer, so it cannot make the mask.
        return_attention_scores: Whether to return the weights (batch, heads, query, key) too.
    """

    def __init__(self, d_model, num_heads, d_ff, **kwargs):
        super().__init__(d_model, num_heads, d_ff, **kwargs)
        self.self_attention = self._attention(rotary=self.rotary)
        self.feed_forward = FeedForward(d_model, d_ff, self.activation)
        self.self_attention_norm, self.feed_forward_norm = self._norm(), self._norm()
        self.drop = keras.layers.Dropout(self.dropout)

    def build(self, states_shape):
        _refuse_states("states", states_shape, self.d_model)
        self.self_attention.build(states_shape, states_shape)
        for layer in (self.feed_forward, self.self_attention_norm, self.feed_forward_norm):
            layer.build(states_shape)
        self.built = True

    def call(self, states, *, attention_mask=None, return_attention_scores=False, training=None):
        seen = self._before(self.self_attention_norm, states)
        update, weights = self.self_attention(
            seen,
            seen,
            attention_mask=attention_mask,
            return_attention_scores=True,
            training=training,
        )
        states = self._after(self.self_attention_norm, states, update, training)
        update = self.feed_forward(self._before(self.feed_forward_norm, states))
        states = self._after(self.feed_forward_norm, states, update, training)
        return (states, weights) if return_attention_scores else states


@keras.saving.register_keras_serializable(package="measured")
class DecoderLayer(ResidualLayer):
    """Self-attention, attention to the encoder's output, feed-forward: states
    (batch, target, d_model) and encoded (batch, source, any width) -> (batch, target, d_model).

    Arguments: see `ResidualLayer`. Rotary positions turn self-attention only: the positions of
    target and source count different things.

    Call arguments:
        states, encoded: What the layer below and the encoder gave.
        self_attention_mask: Rank four, True = attend; `measured.stacks.look_ahead_mask(target)`.
        cross_attention_mask: The same for the source; `padding_mask(source)`.
        return_attention_scores: Whether to return both weights too, of self-attention
            (batch, heads, target, target) and cross-attention (batch, heads, target, source).
    """

    def __init__(self, d_model, num_heads, d_ff, **kwargs):
        super().__init__(d_model, num_heads, d_ff, **kwargs)
        self.self_attention = self._attention(rotary=self.rotary)
        self.cross_attention = self._attention()
        self.feed_forward = FeedForward(d_model, d_ff, self.activation)
        self.self_attention_norm, self.cross_attention_norm = self._norm(), self._norm()
        self.feed_forward_norm = self._norm()
        self.drop = keras.layers.Dropout(self.dropout)

    def build(self, states_shape, encoded_shape):
        _refuse_states("states", states_shape, self.d_model)
        self.self_attention.build(states_shape, states_shape)
        self.cross_attention.build(states_shape, encoded_shape)
        self.feed_forward.build(states_shape)
        for norm in (self.self_attention_norm, self.cross_attention_norm, self.feed_forward_norm):
            norm.build(states_shape)
        self.built = True

    def call(
        self,
        states,
        encoded,
        *,
        self_attention_mask=None,
        cross_attention_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        seen = self._before(self.self_attention_norm, states)
        update, self_weights = self.self_attention(
            seen,
            seen,
            attention_mask=self_attention_mask,
            return_attention_scores=True,
            training=training,
        )
        states = self._after(self.self_attention_norm, states, update, training)
        update, cross_weights = self.cross_attention(
            self._before(self.cross_attention_norm, states),
            encoded,
            attention_mask=cross_attention_mask,
            return_attention_scores=True,
            training=training,
        )
        states = self._after(self.cross_attention_norm, states, update, training)
        update = self.feed_forward(self._before(self.feed_forward_norm, states))
        states = self._after(self.feed_forward_norm, states, update, training)
        return (states, self_weights, cross_weights) if return_attention_scores else states

    def start_cache(self, batch, length):
        """Room for `length` tokens: keys (batch, heads, length, key_dim) and as many values."""
        room = ops.zeros((batch, self.num_heads, length, self.key_dim), dtype=self.compute_dtype)
        return room, room

    def step(self, states, position, cache, memory, *, self_attention_mask, cross_attention_mask):
        """`call` for the one token at `position`: states (batch, 1, d_model), cache -> the same.

        `memory` is what `cross_attention.project_key_value(encoded)` gave, once for all tokens.
        """
        seen = self._before(self.self_attention_norm, states)
        new = self.self_attention.project_key_value(seen, start=position)
        cache = tuple(
            write_at(position, room, entry, axis=2) for room, entry in zip(cache, new, strict=True)
        )
        query = self.self_attention.project_query(seen, start=position)
        update, _ = self.self_attention.attend(query, *cache, attention_mask=self_attention_mask)
        states = self._after(self.self_attention_norm, states, update, False)
        query = self.cross_attention.project_query(self._before(self.cross_attention_norm, states))
        update, _ = self.cross_attention.attend(query, *memory, attention_mask=cross_attention_mask)
        states = self._after(self.cross_attention_norm, states, update, False)
        update = self.feed_forward(self._before(self.feed_forward_norm, states))
        return self._after(self.feed_forward_norm, states, update, False), cache


def write_at(position, room, entry, axis):
    """The room with the entry at one position of the axis, where the entry's size is 1."""
    place = ops.arange(room.shape[axis]) == position
    shape = [-1 if at == axis else 1 for at in range(len(room.shape))]
    # Not `ops.slice_update`: in a TensorFlow graph XLA would have to compile that one operation.
    return ops.where(ops.reshape(place, shape), entry, room)


def share_of_width(d_model, num_heads):
    """The usual width of one head, d_model // num_heads; refuses to round."""
    if d_model % num_heads:
        raise ValueError(
            f"d_model {d_model} is no multiple of num_heads {num_heads}: give a key_dim"
        )
    return d_model // num_heads


def refuse_unknown(name, value, known):
    """Raise unless the value is one of the known ones."""
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise ValueError(f"{name} must be one of {listed}; got {value!r}")


def _refuse_states(name, shape, width):
    if len(shape) != 3 or shape[-1] != width:
        raise ValueError(f"{name} must be (batch, sequence, {width}), got shape {tuple(shape)}")
