"""The whole Transformer: token ids of source and target in, logits of the next target token out.

Source: Vaswani et al. (2017), section 3 and figure 1, arXiv:1706.03762.
"""

import keras
from keras import ops

from measured.stacks import Decoder, Encoder


@keras.saving.register_keras_serializable(package="measured")
class Transformer(keras.Model):
    """Encoder, decoder and output: (source (batch, source), target (batch, target)) -> logits
    (batch, target, target_vocab_size).

    Row t of the logits is about the token after target token t: train with targets shifted by
    one, and a loss with `from_logits=True` that leaves padding out.

    Args:
        source_vocab_size, target_vocab_size: Numbers of token ids, padding (0) included.
        num_layers: Layers of the encoder, and of the decoder.
        d_model, num_heads, d_ff, key_dim, dropout, attention_dropout, norm, positions, max_length,
            activation, attention_bias, epsilon, embeddings_initializer: See `measured.stacks`.
        causal: False shows the decoder its own future, a mistake to study.
        tie_weights: Whether source, target and output share one table, the output then having no
            bias (section 3.4). Needs one vocabulary.

    Call arguments:
        inputs: The pair (source, target).
        padding_mask, look_ahead_mask, cross_padding_mask: Rank four, True = attend, in place of
            what the token ids give for the encoder, the decoder, and its view of the encoder.
        return_attention_scores: Whether to return a dictionary too, of
            "encoder_layer1_self_attention", "decoder_layer1_self_attention",
            "decoder_layer1_cross_attention" … -> weights (batch, heads, query, key).

    Raises:
        ValueError: For inputs that are no pair, `tie_weights` with two vocabularies, and whatever
            the layers refuse.
    """

    def __init__(
        self,
        source_vocab_size,
        target_vocab_size,
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
        causal=True,
        activation="relu",
        attention_bias=True,
        epsilon=1e-6,
        embeddings_initializer="uniform",
        tie_weights=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if tie_weights and source_vocab_size != target_vocab_size:
            raise ValueError(
                "tied weights need one vocabulary, got source_vocab_size "
                f"{source_vocab_size} and target_vocab_size {target_vocab_size}"
            )
        self.tie_weights = tie_weights
        shared = {
            "num_layers": num_layers,
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "key_dim": key_dim,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "norm": norm,
            "positions": positions,
            "max_length": max_length,
            "activation": activation,
            "attention_bias": attention_bias,
            "epsilon": epsilon,
            "embeddings_initializer": embeddings_initializer,
        }
        self.encoder = Encoder(source_vocab_size, name="encoder", **shared)
        table = self.encoder.embedding.token_embedding if tie_weights else None
        self.decoder = Decoder(
            target_vocab_size, causal=causal, token_embedding=table, name="decoder", **shared
        )
        self.output_projection = None
        if not tie_weights:
            self.output_projection = keras.layers.Dense(target_vocab_size, name="output")

    def build(self, input_shape):
        source_shape, target_shape = map(tuple, _pair(input_shape))
        d_model = self.decoder.embedding.d_model
        self.encoder.build(source_shape)
        self.decoder.build(target_shape, (*source_shape, d_model))
        if self.output_projection is not None:
            self.output_projection.build((*target_shape, d_model))
        self.built = True

    def call(
        self,
        inputs,
        *,
        padding_mask=None,
        look_ahead_mask=None,
        cross_padding_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        source, target = _pair(inputs)
        encoded, encoder_weights = self.encoder(
            source, padding_mask=padding_mask, return_attention_scores=True, training=training
        )
        states, decoder_weights = self.decoder(
            target,
            encoded,
            source,
            padding_mask=cross_padding_mask,
            look_ahead_mask=look_ahead_mask,
            return_attention_scores=True,
            training=training,
        )
        logits = self.logits(states)
        if return_attention_scores:
            return logits, {**encoder_weights, **decoder_weights}
        return logits

    def logits(self, states):
        """States of the decoder (batch, target, d_model) -> (batch, target, target_vocab_size)."""
        if self.output_projection is not None:
            return self.output_projection(states)
        table = self.decoder.embedding.token_embedding.embeddings
        return ops.matmul(states, ops.transpose(table))

    def get_config(self):
        encoder, decoder = self.encoder.get_config(), self.decoder.get_config()
        for name in ("name", "trainable", "dtype", "vocab_size", "causal"):
            del encoder[name]
        return {
            **super().get_config(),
            **encoder,
            "source_vocab_size": self.encoder.embedding.vocab_size,
            "target_vocab_size": decoder["vocab_size"],
            "causal": decoder["causal"],
            "tie_weights": self.tie_weights,
        }


def _pair(inputs):
    """The two inputs, or their shapes; a single array is no pair, even one of two rows."""
    if not isinstance(inputs, (tuple, list)) or len(inputs) != 2 or isinstance(inputs[0], int):
        got = len(inputs) if isinstance(inputs, (tuple, list)) else "one array"
        raise ValueError(f"inputs must be the pair (source, target), got {got}")
    return inputs
