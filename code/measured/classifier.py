"""A small text classifier: one encoder layer, a mean over real tokens, one class for each text.

Token ids go in and everything else is made inside: positions, padding mask, the mask of the mean.
What the numbers mean (ids by a vocabulary, classes in an order) is not the model's to know; it is
saved beside it by `measured.bundles`.
"""

from dataclasses import asdict, dataclass

import keras
import numpy as np
from keras import ops

from measured.budgets import attention_budget, feed_forward_budget, normalisation_budget
from measured.masks import padding_mask
from measured.stacks import Encoder

PAD = 0


@dataclass(frozen=True)
class ClassifierSize:
    """Sizes of a `Classifier`: `Classifier(**dataclasses.asdict(size))` builds it."""

    vocab_size: int = 5_000
    num_classes: int = 3
    d_model: int = 32
    num_heads: int = 4
    d_ff: int = 64
    num_layers: int = 1
    max_length: int = 128
    dropout: float = 0.1


@keras.saving.register_keras_serializable(package="measured")
class Classifier(keras.Model):
    """Token ids (batch, sequence), 0 = padding -> probabilities (batch, classes).

    The sequence may be shorter than `max_length`, the number of learned positions. A text without
    a real token gives NaN: `check_batch` refuses it.

    Args:
        vocab_size, d_model, num_heads, d_ff, num_layers, max_length, dropout: Of the encoder.
        num_classes: How many probabilities.

    Call arguments:
        tokens: Token ids.
        return_attention_scores: Whether to return the encoder's dictionary of weights too.
    """

    def __init__(
        self,
        vocab_size,
        num_classes,
        d_model=32,
        num_heads=4,
        d_ff=64,
        num_layers=1,
        max_length=128,
        dropout=0.1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.size = ClassifierSize(
            vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_length, dropout
        )
        self.encoder = Encoder(
            vocab_size,
            num_layers,
            d_model,
            num_heads,
            d_ff,
            dropout=dropout,
            positions="learned",
            max_length=max_length,
        )
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(num_classes, activation="softmax")

    def build(self, tokens_shape):
        self.encoder.build(tokens_shape)
        self.head.build((tokens_shape[0], self.size.d_model))
        self.built = True

    def call(self, tokens, *, return_attention_scores=False, training=None):
        states, weights = self.encoder(
            tokens,
            padding_mask=padding_mask(tokens),
            return_attention_scores=True,
            training=training,
        )
        probabilities = self.head(self.pool(states, mask=ops.not_equal(tokens, PAD)))
        return (probabilities, weights) if return_attention_scores else probabilities

    def get_config(self):
        return {**super().get_config(), **asdict(self.size)}


def build_classifier(size, seed):
    """A `Classifier` of a ClassifierSize with its first weights."""
    keras.utils.set_random_seed(seed)
    model = Classifier(**asdict(size))
    model.build((None, size.max_length))
    return model


def check_batch(tokens, vocab_size, max_length):
    """Return the batch as int32, or raise: tokens (batch, sequence) with concrete values.

    A model computes something for most of what is refused here; it is only not what was meant.
    """
    tokens = np.asarray(tokens)
    if tokens.ndim != 2:
        raise ValueError(f"tokens must be (batch, sequence), got shape {tokens.shape}")
    if tokens.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, got {tokens.dtype}")
    if not len(tokens):
        raise ValueError(f"tokens must hold at least one text, got shape {tokens.shape}")
    if not 1 <= tokens.shape[1] <= max_length:
        raise ValueError(f"a sequence must have 1 to {max_length} tokens, got {tokens.shape[1]}")
    outside = np.argwhere((tokens < 0) | (tokens >= vocab_size))
    if len(outside):
        row, column = outside[0].tolist()
        raise ValueError(
            f"token ids must be 0 to {vocab_size - 1}, got {tokens[row, column]} "
            f"at (batch, sequence) [{row}, {column}]"
        )
    empty = np.flatnonzero(np.all(tokens == PAD, axis=1))
    if len(empty):
        raise ValueError(f"a text needs a real token, got only padding (0) at batch {empty[0]}")
    return tokens.astype(np.int32)


def closed_form(size):
    """Parameters of a `Classifier` by part, from a ClassifierSize: -> part -> count."""
    layers, width = size.num_layers, size.d_model
    attention = attention_budget(width, size.num_heads, width // size.num_heads)
    return {
        "token table": size.vocab_size * width,
        "positions": size.max_length * width,
        "attention": layers * attention["attention projections"].parameters,
        "feed-forward": layers * feed_forward_budget(width, size.d_ff).parameters,
        "normalisation": layers * 2 * normalisation_budget(width).parameters,
        "head": (width + 1) * size.num_classes,
    }


def count_parts(model):
    """The same parts as Keras counts them in a built `Classifier`: -> part -> count."""
    embedding, layers = model.encoder.embedding, model.encoder.layers
    return {
        "token table": embedding.token_embedding.count_params(),
        "positions": embedding.position_embedding.count_params(),
        "attention": sum(layer.self_attention.count_params() for layer in layers),
        "feed-forward": sum(layer.feed_forward.count_params() for layer in layers),
        "normalisation": sum(
            norm.count_params()
            for layer in layers
            for norm in (layer.self_attention_norm, layer.feed_forward_norm)
        ),
        "head": model.head.count_params(),
    }


def audit(model):
    """Closed form and Keras's count of each part, "total" last: -> part -> (int, int).

    Raises where they differ, or where a weight belongs to no part.
    """
    expected, counted = closed_form(model.size), count_parts(model)
    rows = {part: (expected[part], counted[part]) for part in expected}
    rows["total"] = (sum(expected.values()), model.count_params())
    for part, (ours, theirs) in rows.items():
        if ours != theirs:
            raise ValueError(f"{part}: {ours:,} parameters by the closed form, {theirs:,} in Keras")
    return rows
