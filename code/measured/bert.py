"""BERT: an encoder that reads in both directions, over three tables, with a pooler on top.

Where it differs from `measured.stacks`: embeddings are not multiplied by √d_model; positions and
segments are learned, and the sum of the three is normalised; the activation is GELU. Kernels start
from Glorot's distribution as everywhere in this package; BERT has a normal one. Source: Devlin
et al. (2019), section 3 and appendix A.2, arXiv:1810.04805, and its released code; GELU: Hendrycks
and Gimpel (2016), arXiv:1606.08415.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import keras
from keras import ops

from measured import budgets
from measured.layers import EncoderLayer, refuse_unknown
from measured.masks import padding_mask as mask_of
from measured.multihead import refuse_non_positive

ACTIVATIONS = ("gelu", "gelu_tanh")


@dataclass(frozen=True)
class BertConfig(budgets.BertSize):
    """Everything that `Bert` is made from: its sizes, and what costs no parameters.

    `dropout` is on the embeddings and on what each sublayer adds, `attention_dropout` on the
    attention weights; `epsilon` is added to the variance in layer normalisation. The activation is
    "gelu", the exact one, or "gelu_tanh", its approximation.
    """

    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    epsilon: float = 1e-12


BASE = BertConfig(**asdict(budgets.BERT_BASE))
LARGE = BertConfig(**asdict(budgets.BERT_LARGE))
# all-MiniLM-L6-v2: 22,713,216 parameters, every one of them in its checkpoint.
MINILM = BertConfig(30_522, 6, 384, 12, 1536)
# Small enough to be pretrained while the book is built; its vocabulary is the experiment's.
TINY = BertConfig(1000, 2, 64, 2, 256, max_length=64, pooler=False)


@keras.saving.register_keras_serializable(package="measured")
def gelu_tanh(states):
    """The approximation 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))): any shape -> the same.

    Off by at most 4.7e-4, near |x| = 2.7. BERT's released code and keras-hub compute it; PyTorch's
    BERT, and with it most checkpoints, has the exact one.
    """
    return ops.gelu(states, approximate=True)


@keras.saving.register_keras_serializable(package="measured")
class Bert(keras.layers.Layer):
    """The encoder: tokens (batch, sequence), 0 = padding -> states (batch, sequence, d_model).

    Args:
        config: A `BertConfig`, or its fields as a dictionary.

    Call arguments:
        tokens: Token ids. A sequence begins with [CLS], whose last state the pooler reads.
        segments: Segment ids (batch, sequence): 0 for the first text, 1 for the second; all 0
            unless given.
        padding_mask: Rank four, True = attend, in place of the mask made from the tokens.
        return_all_states: Whether to return a tuple of num_layers + 1 states instead, from the
            normalised embeddings (layer 0) to the last.
        return_pooled: Whether to return a pair with the pooled [CLS] as second: tanh of a
            projection of its last state (batch, d_model). Pretraining on pairs of sentences taught
            it; a sentence's vector is more often the mean of its states.

    Raises:
        ValueError: For an unknown activation, sizes that no layer can have, tokens not of rank
            two, a sequence longer than the table of positions, segments of another shape,
            `return_pooled` where the config has no pooler.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        config = config if isinstance(config, BertConfig) else BertConfig(**config)
        sizes = ("vocab_size", "num_layers", "max_length", "segments")
        refuse_non_positive(**{name: getattr(config, name) for name in sizes})
        refuse_unknown("activation", config.activation, ACTIVATIONS)
        self.config = config
        self.token_embedding = _table(config.vocab_size, config.d_model, "token_embedding")
        self.position_embedding = _table(config.max_length, config.d_model, "position_embedding")
        self.segment_embedding = _table(config.segments, config.d_model, "segment_embedding")
        self.embedding_norm = keras.layers.LayerNormalization(epsilon=config.epsilon)
        self.drop = keras.layers.Dropout(config.dropout)
        self.layers = [
            EncoderLayer(
                config.d_model,
                config.num_heads,
                config.d_ff,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                activation=gelu_tanh if config.activation == "gelu_tanh" else "gelu",
                epsilon=config.epsilon,
            )
            for _ in range(config.num_layers)
        ]
        self.pooler = None
        if config.pooler:
            self.pooler = keras.layers.Dense(config.d_model, activation="tanh", name="pooler")

    def build(self, tokens_shape, segments_shape=None):
        states_shape = (*tokens_shape, self.config.d_model)
        for table in (self.token_embedding, self.position_embedding, self.segment_embedding):
            table.build(tokens_shape)
        for layer in (self.embedding_norm, *self.layers):
            layer.build(states_shape)
        if self.pooler is not None:
            self.pooler.build((tokens_shape[0], self.config.d_model))
        self.built = True

    def call(
        self,
        tokens,
        segments=None,
        *,
        padding_mask=None,
        return_all_states=False,
        return_pooled=False,
        training=None,
    ):
        if return_pooled and self.pooler is None:
            raise ValueError("nothing to pool with: this BertConfig has pooler=False")
        mask = mask_of(tokens) if padding_mask is None else padding_mask
        states = self.drop(self.embed(tokens, segments), training=training)
        all_states = [states]
        for layer in self.layers:
            states = layer(states, attention_mask=mask, training=training)
            all_states.append(states)
        found = tuple(all_states) if return_all_states else states
        return (found, self.pooler(states[:, 0])) if return_pooled else found

    def embed(self, tokens, segments=None):
        """Layer 0: the three tables' sum, normalised: (batch, sequence) -> states."""
        self._refuse(tokens.shape, segments)
        segments = ops.zeros_like(tokens) if segments is None else segments
        places = ops.arange(ops.shape(tokens)[1])
        states = self.token_embedding(tokens) + self.position_embedding(places)
        return self.embedding_norm(states + self.segment_embedding(segments))

    def _refuse(self, shape, segments):
        if len(shape) != 2:
            raise ValueError(f"tokens must be (batch, sequence), got shape {tuple(shape)}")
        if shape[1] is not None and shape[1] > self.config.max_length:
            raise ValueError(
                f"a sequence of {shape[1]} is longer than the table of {self.config.max_length} "
                "positions"
            )
        if segments is not None and tuple(segments.shape) != tuple(shape):
            raise ValueError(
                f"segments must be {tuple(shape)} as the tokens, got shape {tuple(segments.shape)}"
            )

    def get_config(self):
        return {**super().get_config(), "config": asdict(self.config)}


def without_values(config):
    """A built `Bert` whose weights have shapes but no values: to count what would not fit."""

    def build():
        with keras.StatelessScope(initialize_variables=False):
            bert = Bert(config)
            bert.build((None, None))
        return bert

    # In a thread of its own: Keras notes, by thread, which variables still need values, and gives
    # them at the end of the next scope.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(build).result()


def count_by_part(bert):
    """Parameters of a built `Bert`, counted: -> part -> count, the parts of `bert_parameters`."""
    tables = (bert.token_embedding, bert.position_embedding, bert.segment_embedding)
    norms = [bert.embedding_norm]
    norms += [norm for at in bert.layers for norm in (at.self_attention_norm, at.feed_forward_norm)]
    return {
        "embeddings": _count(tables),
        "attention projections": _count(layer.self_attention for layer in bert.layers),
        "feed-forward": _count(layer.feed_forward for layer in bert.layers),
        "normalisation": _count(norms),
        "output": 0 if bert.pooler is None else bert.pooler.count_params(),
    }


def _count(layers):
    return sum(layer.count_params() for layer in layers)


def _table(rows, width, name):
    draw = keras.initializers.TruncatedNormal(stddev=0.02)
    return keras.layers.Embedding(rows, width, embeddings_initializer=draw, name=name)
