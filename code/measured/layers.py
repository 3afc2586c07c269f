"""The layers of a Transformer, from one feed-forward network to whole stacks.

Stacks make their masks from token ids, 0 being padding, so that a caller cannot forget one; a mask
given by keyword replaces the one that would be made. Attention weights come back by name.
Sources: Vaswani et al. (2017), sections 3.1, 3.3, 3.4 and 5.4, arXiv:1706.03762; pre-norm: Xiong et
al. (2020), arXiv:2002.04745.
"""

import math

import keras
from keras import ops

from measured.masks import combine_masks, padding_mask
from measured.multihead import MultiHeadAttention, refuse_non_positive
from measured.positions import positional_encoding

NORMS = ("post", "pre")
POSITIONS = ("sinusoidal", "learned", "rotary", None)


def look_ahead_mask(tokens):
    """Hide the future and padding: tokens (batch, sequence) -> (batch, 1, sequence, sequence).

    A sequence must begin with a real token: in front of it a query has nothing to attend to.
    """
    padding = padding_mask(tokens)
    # Not `causal_mask`: inside a graph the length may be a tensor.
    place = ops.arange(ops.shape(tokens)[1])
    return combine_masks((place[None, :] <= place[:, None])[None, None], padding)


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
        self_attention_mask: Rank four, True = attend; `look_ahead_mask(target)`.
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


@keras.saving.register_keras_serializable(package="measured")
class PositionedEmbedding(keras.layers.Layer):
    """Embeddings times √d_model, plus positions: tokens (batch, sequence), integer ->
    (batch, sequence, d_model).

    Args:
        vocab_size: Number of token ids, padding included.
        d_model: Width of an embedding.
        positions: "sinusoidal" or "learned" adds a vector to each; "rotary" and None add nothing.
        max_length: Rows of the table of positions, sinusoidal or learned.
        embeddings_initializer: Of the token table; Keras's default is uniform within ±0.05.
        token_embedding: A `keras.layers.Embedding` to share instead of making one.

    Call arguments:
        tokens: Token ids.
        start: Position of the first token; more than 0 while decoding with a cache.

    Raises:
        ValueError: For an unknown `positions`, tokens that are not of rank two, a sequence longer
            than the table.
    """

    def __init__(
        self,
        vocab_size,
        d_model,
        positions="sinusoidal",
        max_length=512,
        embeddings_initializer="uniform",
        token_embedding=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        refuse_non_positive(vocab_size=vocab_size, d_model=d_model, max_length=max_length)
        refuse_unknown("positions", positions, POSITIONS)
        self.vocab_size, self.d_model = vocab_size, d_model
        self.positions, self.max_length = positions, max_length
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        if token_embedding is None:
            token_embedding = keras.layers.Embedding(
                vocab_size, d_model, embeddings_initializer=self.embeddings_initializer
            )
        self.token_embedding = token_embedding
        if positions == "learned":
            self.position_embedding = keras.layers.Embedding(max_length, d_model)
        elif positions == "sinusoidal":
            self.table = positional_encoding(max_length, d_model, dtype="float32")

    def build(self, tokens_shape):
        self._refuse_tokens(tokens_shape)
        if not self.token_embedding.built:
            self.token_embedding.build(tokens_shape)
        if self.positions == "learned":
            self.position_embedding.build(tokens_shape[1:])
        self.built = True

    def call(self, tokens, *, start=0):
        self._refuse_tokens(tokens.shape)
        states = self.token_embedding(tokens) * math.sqrt(self.d_model)
        if self.positions not in ("sinusoidal", "learned"):
            return states
        place = start + ops.arange(ops.shape(tokens)[1])
        if self.positions == "learned":
            return states + self.position_embedding(place)
        return states + ops.cast(ops.take(self.table, place, axis=0), states.dtype)

    def _refuse_tokens(self, shape):
        if len(shape) != 2:
            raise ValueError(f"tokens must be (batch, sequence), got shape {tuple(shape)}")
        tabled = self.positions in ("sinusoidal", "learned")
        if tabled and shape[1] is not None and shape[1] > self.max_length:
            raise ValueError(
                f"a sequence of {shape[1]} is longer than the table of {self.max_length} "
                f"{self.positions} positions; give a larger max_length"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "positions": self.positions,
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


class Stack(keras.layers.Layer):
    """What encoder and decoder share: embedding with positions, then equal layers.

    Pre-norm adds a last layer normalisation: without it the sum of all updates would leave
    the stack unnormalised.

    Args:
        vocab_size: Number of token ids, padding included.
        num_layers: How many layers.
        d_model, num_heads, d_ff, key_dim, dropout, attention_dropout, norm, activation,
            attention_bias, epsilon: See `ResidualLayer`; dropout is on the embeddings too.
        positions: "sinusoidal", "learned", "rotary" or None.
        max_length: Longest sequence that sinusoidal and learned positions allow.
        causal: Whether a token may not attend to later ones.
        embeddings_initializer, token_embedding: See `PositionedEmbedding`.
    """

    causal_by_default = False
    layer_type = EncoderLayer

    def __init__(
        self,
        vocab_size,
        num_layers,
        d_model,
        num_heads,
        d_ff,
        key_dim=None,
        dropout=0.1,
        attention_dropout=0.0,
        norm="post",
        positions="sinusoidal",
        max_length=512,
        causal=None,
        activation="relu",
        attention_bias=True,
        epsilon=1e-6,
        embeddings_initializer="uniform",
        token_embedding=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        refuse_non_positive(num_layers=num_layers)
        self.num_layers = num_layers
        self.causal = self.causal_by_default if causal is None else causal
        self.dropout = dropout
        self.embedding = PositionedEmbedding(
            vocab_size, d_model, positions, max_length, embeddings_initializer, token_embedding
        )
        self.layers = [
            self.layer_type(
                d_model,
                num_heads,
                d_ff,
                key_dim=key_dim,
                dropout=dropout,
                attention_dropout=attention_dropout,
                norm=norm,
                activation=activation,
                attention_bias=attention_bias,
                rotary=positions == "rotary",
                epsilon=epsilon,
            )
            for _ in range(num_layers)
        ]
        self.drop = keras.layers.Dropout(dropout)
        self.final_norm = None
        if norm == "pre":
            self.final_norm = keras.layers.LayerNormalization(epsilon=epsilon)

    def _finish(self, states):
        return states if self.final_norm is None else self.final_norm(states)

    def _build(self, tokens_shape, *encoded_shape):
        states_shape = (*tokens_shape, self.embedding.d_model)
        self.embedding.build(tokens_shape)
        for layer in self.layers:
            layer.build(states_shape, *encoded_shape)
        if self.final_norm is not None:
            self.final_norm.build(states_shape)
        self.built = True

    def _mask(self, tokens):
        return look_ahead_mask(tokens) if self.causal else padding_mask(tokens)

    def get_config(self):
        layer = self.layers[0].get_config()
        names = ("num_heads", "d_ff", "key_dim", "attention_dropout", "norm", "activation")
        shared = {name: layer[name] for name in (*names, "attention_bias", "epsilon")}
        embedding = self.embedding.get_config()
        names = ("vocab_size", "d_model", "positions", "max_length", "embeddings_initializer")
        return {
            **super().get_config(),
            **{name: embedding[name] for name in names},
            **shared,
            "num_layers": self.num_layers,
            "dropout": self.dropout,
            "causal": self.causal,
        }


@keras.saving.register_keras_serializable(package="measured")
class Encoder(Stack):
    """A stack of encoder layers: tokens (batch, sequence) -> states (batch, sequence, d_model).

    With `causal=True` it is the stack of a language model: a decoder without an encoder to read.

    Arguments: see `Stack`.

    Call arguments:
        tokens: Token ids, 0 = padding.
        padding_mask: Rank four, True = attend, in place of the mask made from the tokens; with
            `causal=True` it has to hide the future too.
        return_attention_scores: Whether to return a dictionary too,
            "encoder_layer1_self_attention" … -> weights (batch, heads, query, key).
    """

    def build(self, tokens_shape):
        self._build(tokens_shape)

    def call(self, tokens, *, padding_mask=None, return_attention_scores=False, training=None):
        mask = self._mask(tokens) if padding_mask is None else padding_mask
        states = self.drop(self.embedding(tokens), training=training)
        named = {}
        for number, layer in enumerate(self.layers, 1):
            states, weights = layer(
                states, attention_mask=mask, return_attention_scores=True, training=training
            )
            named[f"encoder_layer{number}_self_attention"] = weights
        states = self._finish(states)
        return (states, named) if return_attention_scores else states


@keras.saving.register_keras_serializable(package="measured")
class Decoder(Stack):
    """A stack of decoder layers: tokens (batch, target), encoded (batch, source, any width) ->
    states (batch, target, d_model).

    Arguments: see `Stack`. `causal=False` leaves the future open to view: training then goes
    well and generation fails, which `measured.leaks` finds.

    Call arguments:
        tokens: Token ids of the target, 0 = padding, beginning with a real token.
        encoded: What the encoder gave.
        source: Token ids (batch, source) that were encoded; they tell where padding is.
        padding_mask: Rank four, True = attend, in place of the one made from `source`.
        look_ahead_mask: The same in place of the one made from `tokens`.
        return_attention_scores: Whether to return a dictionary too, of
            "decoder_layer1_self_attention", "decoder_layer1_cross_attention", ….

    Raises:
        ValueError: When neither `source` nor `padding_mask` is given.
    """

    causal_by_default = True
    layer_type = DecoderLayer

    def build(self, tokens_shape, encoded_shape):
        self._build(tokens_shape, encoded_shape)

    def call(
        self,
        tokens,
        encoded,
        source=None,
        *,
        padding_mask=None,
        look_ahead_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        cross_mask = source_mask(source) if padding_mask is None else padding_mask
        self_mask = self._mask(tokens) if look_ahead_mask is None else look_ahead_mask
        states = self.drop(self.embedding(tokens), training=training)
        named = {}
        for number, layer in enumerate(self.layers, 1):
            states, self_weights, cross_weights = layer(
                states,
                encoded,
                self_attention_mask=self_mask,
                cross_attention_mask=cross_mask,
                return_attention_scores=True,
                training=training,
            )
            named[f"decoder_layer{number}_self_attention"] = self_weights
            named[f"decoder_layer{number}_cross_attention"] = cross_weights
        states = self._finish(states)
        return (states, named) if return_attention_scores else states

    def start_caches(self, encoded, length):
        """Before the first token: -> caches and memories, a tuple with one entry a layer.

        Caches fill up, room for `length` tokens; memories are the encoder's output projected to
        the keys and values of each layer's cross-attention, and stay as they are.
        """
        batch = ops.shape(encoded)[0]
        caches = tuple(layer.start_cache(batch, length) for layer in self.layers)
        memories = tuple(layer.cross_attention.project_key_value(encoded) for layer in self.layers)
        return caches, memories

    def step(self, tokens, position, caches, memories, *, look_ahead_mask, padding_mask):
        """`call` for the one token at `position`: tokens (batch, 1) -> states, caches.

        `look_ahead_mask` (batch, 1, 1, length) must hide the room that is still empty.
        """
        states = self.embedding(tokens, start=position)
        filled = []
        for layer, cache, memory in zip(self.layers, caches, memories, strict=True):
            states, cache = layer.step(
                states,
                position,
                cache,
                memory,
                self_attention_mask=look_ahead_mask,
                cross_attention_mask=padding_mask,
            )
            filled.append(cache)
        return self._finish(states), tuple(filled)


def write_at(position, room, entry, axis):
    """The room with the entry at one position of the axis, where the entry's size is 1."""
    place = ops.arange(room.shape[axis]) == position
    shape = [-1 if at == axis else 1 for at in range(len(room.shape))]
    # Not `ops.slice_update`: in a TensorFlow graph XLA would have to compile that one operation.
    return ops.where(ops.reshape(place, shape), entry, room)


def source_mask(source):
    """The padding mask of the source; refuses to do without one."""
    if source is None:
        raise ValueError(
            "the decoder must know which source positions are padding: give the token ids as "
            "source= (batch, source), or a padding_mask= of rank four"
        )
    return padding_mask(source)


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
