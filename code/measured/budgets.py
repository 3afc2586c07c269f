"""What a Transformer costs, in closed form: parameters, multiply-adds, bytes of activations.

Sizes in, integers out; nothing here imports Keras, and the tests count what Keras builds. Sources:
Vaswani et al. (2017), table 3, arXiv:1706.03762; Devlin et al. (2019), section 3, arXiv:1810.04805.

Parameters are trained numbers. Multiply-adds are those of the matrix products in one forward
pass: a lookup has none, and softmax, normalisation, residuals and biases are left out.
Activations are what backpropagation needs of one forward pass without dropout: a product keeps its
inputs, softmax and ReLU their outputs, normalisation its input, the loss the logits; what two of
them need is counted once.
"""

from dataclasses import dataclass

PARTS = (
    "embeddings",
    "attention projections",
    "attention scores",
    "feed-forward",
    "normalisation",
    "output",
)


@dataclass(frozen=True)
class Budget:
    """What something costs: parameters, multiply-adds, and activations in bytes."""

    parameters: int = 0
    multiply_adds: int = 0
    activation_bytes: int = 0

    def __add__(self, other):
        return Budget(
            self.parameters + other.parameters,
            self.multiply_adds + other.multiply_adds,
            self.activation_bytes + other.activation_bytes,
        )

    def __mul__(self, times):
        return Budget(
            self.parameters * times, self.multiply_adds * times, self.activation_bytes * times
        )


@dataclass(frozen=True)
class StackSize:
    """Sizes of an encoder or decoder, by the argument names of `measured.stacks`."""

    vocab_size: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    key_dim: int | None = None
    norm: str = "post"
    positions: str | None = "sinusoidal"
    max_length: int = 512
    attention_bias: bool = True


@dataclass(frozen=True)
class TransformerSize:
    """Sizes of a whole Transformer: `Transformer(**dataclasses.asdict(size))` builds it."""

    source_vocab_size: int
    target_vocab_size: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    key_dim: int | None = None
    norm: str = "post"
    positions: str | None = "sinusoidal"
    max_length: int = 512
    attention_bias: bool = True
    tie_weights: bool = False


@dataclass(frozen=True)
class BertSize:
    """Sizes of BERT: an encoder with three tables, their normalisation, and a pooler."""

    vocab_size: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    max_length: int = 512
    segments: int = 2
    pooler: bool = True


# The paper says 65 million, ours is 63,082,496; without the attention biases, which its formulas
# do not have, 63,045,632. All it says of the vocabulary is "about 37000", shared by source, target
# and output, and each thousand tokens more is 512,000 parameters: 65.0 million would need 40,745.
BASE = TransformerSize(37_000, 37_000, 6, 512, 8, 2048, tie_weights=True)

# The paper says 213 million, ours is 214,245,376; without the attention biases 214,171,648. Here
# the paper's figure is the smaller one, and would need 35,784 tokens: no one vocabulary gives both.
BIG = TransformerSize(37_000, 37_000, 6, 1024, 16, 4096, tie_weights=True)

# The paper says 110 million, ours is 109,482,240: encoder and pooler. Its two heads for pretraining
# (masked tokens with a tied table, next sentence) add 624,188 and give 110,106,428.
BERT_BASE = BertSize(30_522, 12, 768, 12, 3072)

# The paper says 340 million, ours is 335,141,888; with the heads 336,226,108. It agrees only when
# rounded to ten millions, as the paper's 110 is too.
BERT_LARGE = BertSize(30_522, 24, 1024, 16, 4096)


def attention_budget(
    d_model,
    num_heads,
    key_dim,
    value_dim=None,
    use_bias=True,
    batch=1,
    query_length=1,
    key_length=None,
    bytes_per_value=4,
):
    """Multi-head attention: -> {"attention projections": …, "attention scores": …}.

    `key_dim` is per head: with `key_dim=d_model` the layer is `num_heads` times as wide as the
    paper's. Self-attention unless `key_length` is given; the input of key and value is counted
    then by whoever shares it.
    """
    value_dim = key_dim if value_dim is None else value_dim
    keys = query_length if key_length is None else key_length
    key_width, value_width = num_heads * key_dim, num_heads * value_dim
    biases = 2 * key_width + value_width + d_model if use_bias else 0
    width = key_width + value_width  # query and output at each query; key and value at each key
    return {
        "attention projections": Budget(
            2 * d_model * width + biases,
            batch * d_model * (query_length + keys) * width,
            bytes_per_value * batch * (query_length * d_model + (query_length + keys) * width),
        ),
        "attention scores": Budget(
            0,
            batch * query_length * keys * width,
            bytes_per_value * batch * num_heads * query_length * keys,
        ),
    }


def feed_forward_budget(d_model, d_ff, batch=1, length=1, bytes_per_value=4):
    """Two products, the first followed by ReLU: -> Budget."""
    tokens = batch * length
    return Budget(
        2 * d_model * d_ff + d_ff + d_model,
        2 * tokens * d_model * d_ff,
        bytes_per_value * tokens * (d_model + d_ff),
    )


def normalisation_budget(d_model, batch=1, length=1, bytes_per_value=4):
    """Layer normalisation, scale and offset: -> Budget."""
    return Budget(2 * d_model, 0, bytes_per_value * batch * length * d_model)


def encoder_layer_budget(size, batch=1, length=1, bytes_per_value=4):
    """One encoder layer of any size class here: -> part -> Budget."""
    work = {"batch": batch, "bytes_per_value": bytes_per_value}
    return {
        **_attention(size, query_length=length, **work),
        "feed-forward": feed_forward_budget(size.d_model, size.d_ff, length=length, **work),
        "normalisation": normalisation_budget(size.d_model, length=length, **work) * 2,
    }


def decoder_layer_budget(size, batch=1, source_length=1, target_length=1, bytes_per_value=4):
    """One decoder layer: -> part -> Budget. The encoder's output is not counted in it."""
    work = {"batch": batch, "bytes_per_value": bytes_per_value}
    return _merge(
        _attention(size, query_length=target_length, **work),
        _attention(size, query_length=target_length, key_length=source_length, **work),
        {
            "feed-forward": feed_forward_budget(
                size.d_model, size.d_ff, length=target_length, **work
            ),
            "normalisation": normalisation_budget(size.d_model, length=target_length, **work) * 3,
        },
    )


def encoder_budget(size, batch=1, length=1, bytes_per_value=4):
    """An `Encoder` with its embedding, from a `StackSize`: -> part -> Budget."""
    layer = encoder_layer_budget(size, batch, length, bytes_per_value)
    return _merge(
        {"embeddings": Budget(_table(size.vocab_size, size) + _positions(size))},
        _times(layer, size.num_layers),
        _final_norm(size, batch, length, bytes_per_value),
    )


def transformer_budget(size, batch=1, source_length=1, target_length=1, bytes_per_value=4):
    """A `Transformer` by place and part, from a `TransformerSize`: -> place -> part -> Budget.

    Places: "source embedding", "target embedding", "encoder", "decoder", "output".
    """
    work = {"batch": batch, "bytes_per_value": bytes_per_value}
    encoder_layer = encoder_layer_budget(size, length=source_length, **work)
    decoder_layer = decoder_layer_budget(
        size, source_length=source_length, target_length=target_length, **work
    )
    shared = bytes_per_value * batch * source_length * size.d_model
    tied = size.tie_weights
    source_table = _table(size.source_vocab_size, size)
    target_table = 0 if tied else _table(size.target_vocab_size, size)
    tokens = batch * target_length
    return {
        "source embedding": {"embeddings": Budget(source_table + _positions(size))},
        "target embedding": {"embeddings": Budget(target_table + _positions(size))},
        "encoder": _merge(
            _times(encoder_layer, size.num_layers),
            _final_norm(size, length=source_length, **work),
        ),
        "decoder": _merge(
            _times(decoder_layer, size.num_layers),
            # The encoder's output enters the cross-attention of every layer, and is kept once.
            {"attention projections": Budget(activation_bytes=shared)},
            _final_norm(size, length=target_length, **work),
        ),
        "output": {
            "output": Budget(
                0 if tied else (size.d_model + 1) * size.target_vocab_size,
                tokens * size.d_model * size.target_vocab_size,
                bytes_per_value * tokens * (size.d_model + size.target_vocab_size),
            )
        },
    }


def bert_parameters(size):
    """Parameters of BERT without heads for pretraining, from a `BertSize`: -> part -> count."""
    width, layers = size.d_model, size.num_layers
    layer = encoder_layer_budget(
        StackSize(size.vocab_size, layers, width, size.num_heads, size.d_ff)
    )
    return {
        "embeddings": (size.vocab_size + size.max_length + size.segments) * width,
        "attention projections": layers * layer["attention projections"].parameters,
        "feed-forward": layers * layer["feed-forward"].parameters,
        "normalisation": layers * layer["normalisation"].parameters + 2 * width,
        "output": width * width + width if size.pooler else 0,
    }


def decoding_multiply_adds(size, source_length, length, use_cache=True):
    """Multiply-adds of `greedy_decode` for one source and `length` tokens, encoder included.

    Both ways hold a target of `length` places from the first token on. A step without a cache
    runs the decoder over all of them, keys and values of the source included; a step with one
    computes a single query, which still meets all `length` places of the cache.
    """
    whole = transformer_budget(size, 1, source_length, length)
    encoder = total(whole["encoder"]).multiply_adds
    output = length * size.d_model * size.target_vocab_size
    if not use_cache:
        return encoder + length * total(whole["decoder"]).multiply_adds + output
    width = size.num_heads * _key_dim(size)
    memory = 2 * source_length * size.d_model * width
    step = 4 * size.d_model * width + 2 * length * width  # self-attention
    step += 2 * size.d_model * width + 2 * source_length * width  # cross-attention
    step += 2 * size.d_model * size.d_ff
    return encoder + size.num_layers * (memory + length * step) + output


def by_part(places):
    """Sum over places: place -> part -> Budget becomes part -> Budget, in the order of PARTS."""
    merged = _merge(*places.values())
    return {part: merged[part] for part in PARTS if part in merged}


def total(budgets):
    """Sum of a dictionary of budgets, nested or not: -> Budget."""
    parts = [part if isinstance(part, Budget) else total(part) for part in budgets.values()]
    return sum(parts, Budget())


def _attention(size, **work):
    key_dim = _key_dim(size)
    return attention_budget(
        size.d_model, size.num_heads, key_dim, use_bias=size.attention_bias, **work
    )


def _key_dim(size):
    return size.d_model // size.num_heads if size.key_dim is None else size.key_dim


def _table(vocab_size, size):
    return vocab_size * size.d_model


def _positions(size):
    return size.max_length * size.d_model if size.positions == "learned" else 0


def _final_norm(size, batch, length, bytes_per_value):
    if size.norm != "pre":
        return {}
    return {"normalisation": normalisation_budget(size.d_model, batch, length, bytes_per_value)}


def _times(parts, times):
    return {part: budget * times for part, budget in parts.items()}


def _merge(*several):
    merged = {}
    for parts in several:
        for part, budget in parts.items():
            merged[part] = merged.get(part, Budget()) + budget
    return merged
