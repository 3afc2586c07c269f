from dataclasses import asdict, replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, none, sampled_from
from reference import count_kept, decoder_layer, encoder_layer

from measured.budgets import (
    BASE,
    BERT_BASE,
    BERT_LARGE,
    BIG,
    PARTS,
    StackSize,
    TransformerSize,
    attention_budget,
    bert_parameters,
    by_part,
    decoder_layer_budget,
    decoding_multiply_adds,
    encoder_budget,
    encoder_layer_budget,
    feed_forward_budget,
    total,
    transformer_budget,
)
from measured.decoding import GreedyDecoder
from measured.multihead import MultiHeadAttention
from measured.stacks import Encoder
from measured.transformer import Transformer

SMALL = TransformerSize(30, 35, 6, 4, 4, 8, key_dim=4)


def parameters(size):
    return total(transformer_budget(size)).parameters


def products(graph):
    """Multiply-adds of the matrix products in a traced graph, from the shapes in it."""
    count = 0
    for node in graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            first = node.inputs[0]
            flipped = node.get_attr("transpose_a" if node.type == "MatMul" else "adj_x")
            inner = first.shape[-2 if flipped else -1]
            # A batch of matrices with one on the right is broadcast: the output has all rows.
            count += int(np.prod(node.outputs[0].shape)) * inner
        assert node.type not in ("Einsum", "XlaDot"), "a product that is not counted"
    return count


def traced(function, *shapes):
    specs = [tf.TensorSpec(shape, "int32") for shape in shapes]
    return tf.function(function).get_concrete_function(*specs).graph


@pytest.mark.parametrize(
    ("size", "published"),
    [
        (SMALL, 7_131),
        (replace(SMALL, key_dim=None), 3_027),
        (BASE, 63_082_496),
        (replace(BASE, attention_bias=False), 63_045_632),
        (replace(BASE, key_dim=512), 195_396_608),
        (BIG, 214_245_376),
        (replace(BIG, attention_bias=False), 214_171_648),
        (replace(BIG, key_dim=1024), 1_347_536_896),
    ],
)
def test_parameters_of_sizes_counted_elsewhere(size, published):
    assert parameters(size) == published


def test_parameters_of_bert_counted_elsewhere():
    assert sum(bert_parameters(BERT_BASE).values()) == 109_482_240
    assert sum(bert_parameters(BERT_LARGE).values()) == 335_141_888


def test_where_the_7131_parameters_lie():
    places = transformer_budget(SMALL)
    assert {place: total(parts).parameters for place, parts in places.items()} == {
        "source embedding": 120,
        "target embedding": 140,
        "encoder": 6 * 400,
        "decoder": 6 * 716,
        "output": 175,
    }


def test_no_one_vocabulary_gives_both_rounded_figures_of_the_paper():
    def vocabularies(size, millions):
        """Those whose total rounds to the figure."""
        rest = parameters(replace(size, source_vocab_size=0, target_vocab_size=0))
        totals = {tokens: rest + tokens * size.d_model for tokens in range(30_000, 45_000)}
        return {tokens for tokens, count in totals.items() if round(count / 1e6) == millions}

    base, big = vocabularies(BASE, 65), vocabularies(BIG, 213)
    assert (min(base), max(base), min(big), max(big)) == (39_769, 41_721, 35_296, 36_272)
    assert not base & big


def test_the_heads_of_bert_explain_its_rounded_figures():
    def heads(size):
        width, vocab = size.d_model, size.vocab_size
        masked_tokens = width * width + width + 2 * width + vocab  # table tied
        return masked_tokens + 2 * width + 2

    base, large = (sum(bert_parameters(size).values()) for size in (BERT_BASE, BERT_LARGE))
    assert (heads(BERT_BASE), base + heads(BERT_BASE)) == (624_188, 110_106_428)
    assert large + heads(BERT_LARGE) == 336_226_108


def test_base_is_what_keras_builds():
    # float16 only to hold half the memory; the count is the same
    model = Transformer(**asdict(BASE), embeddings_initializer="zeros", dtype="float16")
    model.build(((None, 5), (None, 7)))
    assert model.count_params() == 63_082_496


@settings(deadline=None, max_examples=12)
@given(
    heads=sampled_from([1, 2, 3]),
    share=integers(1, 3),
    key_dim=none() | sampled_from([2, 4]),
    layers=integers(1, 2),
    norm=sampled_from(["post", "pre"]),
    positions=sampled_from(["sinusoidal", "learned", "rotary", None]),
    bias=booleans(),
    tied=booleans(),
)
def test_every_configuration_has_as_many_parameters_as_keras_counts(
    heads, share, key_dim, layers, norm, positions, bias, tied
):
    size = TransformerSize(
        source_vocab_size=11,
        target_vocab_size=11 if tied else 13,
        num_layers=layers,
        d_model=heads * 2 * share,
        num_heads=heads,
        d_ff=7,
        key_dim=key_dim,
        norm=norm,
        positions=positions,
        max_length=17,
        attention_bias=bias,
        tie_weights=tied,
    )
    model = Transformer(**asdict(size))
    model.build(((None, 5), (None, 7)))
    assert parameters(size) == model.count_params()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_has_as_many_parameters_as_keras_counts(norm):
    size = StackSize(101, 3, 12, 4, 23, norm=norm, positions="learned", max_length=17)
    encoder = Encoder(**asdict(size))
    encoder.build((None, 5))
    assert total(encoder_budget(size)).parameters == encoder.count_params()


@pytest.mark.parametrize(("use_bias", "value_dim"), [(True, 7), (False, 7), (True, None)])
def test_attention_has_as_many_parameters_as_the_layer_of_keras(use_bias, value_dim):
    layer = keras.layers.MultiHeadAttention(3, 5, value_dim, use_bias=use_bias)
    layer.build((2, 11, 13), (2, 11, 13))
    budget = attention_budget(13, 3, 5, value_dim, use_bias)
    assert total(budget).parameters == layer.count_params()


def test_feed_forward_of_the_classifier_by_hand():
    assert feed_forward_budget(32, 64).parameters == 4_192
    assert total(attention_budget(32, 4, 8)).parameters == 4_224


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("key_dim", [None, 5])
def test_multiply_adds_are_those_of_the_graph(tied, key_dim):
    size = TransformerSize(31, 31, 2, 12, 3, 17, key_dim=key_dim, tie_weights=tied)
    model = Transformer(**asdict(size))
    model.build(((None, 5), (None, 7)))
    graph = traced(lambda source, target: model((source, target)), (2, 5), (2, 7))
    assert total(transformer_budget(size, 2, 5, 7)).multiply_adds == products(graph)


def test_multiply_adds_of_attention_with_another_value_width():
    layer = MultiHeadAttention(3, 5, 7)
    graph = traced(
        lambda query, value: layer(tf.cast(query, "float32"), tf.cast(value, "float32")),
        (2, 11, 13),
        (2, 17, 13),
    )
    budget = total(attention_budget(13, 3, 5, 7, batch=2, query_length=11, key_length=17))
    assert budget.multiply_adds == products(graph)


@pytest.mark.parametrize("use_cache", [True, False])
def test_multiply_adds_of_decoding_are_those_of_the_graph(use_cache):
    size = TransformerSize(31, 37, 2, 12, 3, 17)
    model = Transformer(**asdict(size))
    decoder = GreedyDecoder(model, 1, 2, 7, use_cache)
    graph = traced(decoder.call, (1, 5))
    loop = [node for node in graph.get_operations() if node.type in ("While", "StatelessWhile")]
    assert len(loop) == 1
    body = graph._get_function(loop[0].get_attr("body").name).graph
    assert decoding_multiply_adds(size, 5, 7, use_cache) == products(graph) + 7 * products(body)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_activations_are_what_the_reference_keeps(norm):
    rng = np.random.default_rng(7)

    def attention(width, source):
        inner = [(width, 3, 4), (3, 4), (source, 3, 4), (3, 4), (source, 3, 4), (3, 4)]
        return [rng.normal(size=shape) for shape in [*inner, (3, 4, width), (width,)]]

    weights = {
        "attention": attention(12, 12),
        "cross_attention": attention(12, 12),
        "feed_forward": [rng.normal(size=shape) for shape in [(12, 17), (17,), (17, 12), (12,)]],
        "norms": [[np.ones(12), np.zeros(12)]] * 3,
    }
    size = StackSize(1, 1, 12, 3, 17, norm=norm)
    states, encoded, kept = rng.normal(size=(5, 12)), rng.normal(size=(7, 12)), []
    encoder_layer(weights, encoded, norm=norm, kept=kept)
    budget = total(encoder_layer_budget(size, batch=2, length=7))
    assert budget.activation_bytes == 2 * 4 * count_kept(kept)
    kept = []
    decoder_layer(weights, states, encoded, norm=norm, kept=kept)
    budget = total(decoder_layer_budget(size, batch=2, source_length=7, target_length=5))
    # the encoder's output is counted once for all layers, not in each
    assert budget.activation_bytes == 2 * 4 * (count_kept(kept) - encoded.size)


def test_a_whole_transformer_keeps_what_its_layers_keep_and_the_ends():
    size = TransformerSize(31, 37, 3, 12, 4, 17, norm="pre")
    whole = total(transformer_budget(size, 2, 7, 5, bytes_per_value=2)).activation_bytes
    layers = 3 * total(encoder_layer_budget(size, 2, 7, 2)).activation_bytes
    layers += 3 * total(decoder_layer_budget(size, 2, 7, 5, 2)).activation_bytes
    # two last norms keep their inputs; cross-attention the encoder's output; the output
    # projection its input, the loss the logits
    ends = 2 * 2 * (7 * 12 + 5 * 12 + 7 * 12 + 5 * 12 + 5 * 37)
    assert whole == layers + ends


@given(length=integers(1, 50))
def test_twice_the_length_costs_four_times_the_scores_and_twice_the_rest(length):
    once = by_part(transformer_budget(SMALL, 1, length, length))
    twice = by_part(transformer_budget(SMALL, 1, 2 * length, 2 * length))
    assert list(once) == list(PARTS)
    for part in PARTS:
        factor = 4 if part == "attention scores" else 2
        assert twice[part].multiply_adds == factor * once[part].multiply_adds
        assert twice[part].activation_bytes == factor * once[part].activation_bytes
        assert twice[part].parameters == once[part].parameters
