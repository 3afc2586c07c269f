"""Stacks of layers: positioned embeddings, the encoder, the decoder.

Stacks make their masks from token ids, 0 being padding, so that a caller cannot forget one; a mask
given by keyword replaces the one that would be made. Attention weights come back by name.
Sources: Vaswani et al. (2017), sections 3.1, 3.2.3 and 3.4, arXiv:1706.03762.
"""

import math

import keras
from keras import ops

from measured.layers import DecoderLayer, EncoderLayer, refuse_unknown
from measured.masks import combine_masks, padding_mask
from measured.multihead import refuse_non_positive
from measured.positions import positional_encoding

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


def source_mask(source):
    """The padding mask of the source; refuses to do without one."""
    if source is None:
        raise ValueError(
            "the decoder must know which source positions are padding: give the token ids as "
            "source= (batch, source), or a padding_mask= of rank four"
        )
    return padding_mask(source)
