import numpy as np
import pytest

from measured.decoding import GreedyDecoder, greedy_decode
from measured.transformer import Transformer

START, END = 1, 2
SOURCE = np.array([[5, 3, 8, 2, 9, 4, 6], [7, 1, 6, 0, 0, 0, 0], [9, 9, 4, 3, 0, 0, 0]])


def talkative(seed, **changes):
    """A model whose tokens vary and sometimes end: random weights, and the last token matters."""
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 4, "d_ff": 23, "max_length": 13}
    model = Transformer(11, 23, **{**sizes, **changes})
    model.build(((None, None), (None, None)))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0, 0.4, weight.shape) for weight in model.get_weights()])
    # Strong embeddings and plain normalisation, or every state would look alike.
    model.decoder.embedding.token_embedding.set_weights([rng.normal(0, 2, (23, 16))])
    for layer in model.decoder.layers:
        for norm in (layer.self_attention_norm, layer.cross_attention_norm):
            norm.set_weights([np.ones(16), np.zeros(16)])
        layer.feed_forward_norm.set_weights([np.ones(16), np.zeros(16)])
    model.output_projection.set_weights([rng.normal(0, 1, (16, 23)), np.zeros(23)])
    return model


def naive(model, source, max_length, end):
    """Plain calls, the target as long as what is known; rows are cut at their end afterwards."""
    target = np.full((len(source), 1), START)
    for _ in range(max_length):
        logits = np.array(model((source, target)))[:, -1]
        target = np.concatenate([target, 1 + logits[:, 1:].argmax(1)[:, None]], axis=1)
    rows = target[:, 1:]
    ended = np.cumsum(rows == end, axis=1) - (rows == end) > 0
    return np.where(ended, 0, rows)


@pytest.mark.parametrize(
    ("norm", "positions", "seed"),
    [("post", "sinusoidal", 39), ("pre", "learned", 37), ("post", "rotary", 39), ("pre", None, 29)],
)
def test_with_the_cache_without_and_naive_give_the_same_tokens(norm, positions, seed):
    model = talkative(seed, norm=norm, positions=positions, num_layers=2)
    endless = naive(model, SOURCE, 9, end=None)
    assert len(np.unique(endless)) > 4, "the model says too little for the test to mean anything"
    end = int(endless[0, 4])  # so that at least one row ends inside
    expected = naive(model, SOURCE, 9, end)
    assert (expected == 0).any()
    for use_cache in (True, False):
        tokens = greedy_decode(model, SOURCE, START, end, 9, use_cache=use_cache)
        assert tokens.dtype == "int32"
        np.testing.assert_array_equal(tokens, expected)


def test_rows_in_a_batch_do_not_touch_each_other():
    model = talkative(39, num_layers=2)
    decoder = GreedyDecoder(model, START, END, 7)
    together = decoder.decode(SOURCE)
    np.testing.assert_array_equal(decoder.decode(SOURCE, batch_size=1), together)
    np.testing.assert_array_equal(decoder.decode(SOURCE, batch_size=2), together)
    assert len(np.unique(together, axis=0)) == 3


@pytest.mark.parametrize("use_cache", [True, False])
def test_padding_follows_the_end_and_is_never_chosen(use_cache):
    model = talkative(0)
    bias = np.zeros(23, "float32")
    bias[0], bias[END] = 1000, 500  # the model would say padding, and failing that the end
    kernel = model.output_projection.get_weights()[0]
    model.output_projection.set_weights([kernel, bias])
    tokens = greedy_decode(model, SOURCE, START, END, 5, use_cache=use_cache)
    assert tokens.tolist() == [[END, 0, 0, 0, 0]] * 3


def test_it_stops_when_all_have_ended_and_is_traced_once():
    model = talkative(0)
    kernel, bias = model.output_projection.get_weights()
    bias[END] = 1000
    model.output_projection.set_weights([kernel, bias])
    decoder = GreedyDecoder(model, START, END, 13)
    steps = []
    inner = model.decoder.step
    model.decoder.step = lambda *args, **given: steps.append(1) or inner(*args, **given)
    for _ in range(3):
        decoder.decode(SOURCE)
    assert len(steps) == 1  # the body of the loop, in three calls of thirteen possible steps


def test_later_training_is_seen():
    model = talkative(0)
    decoder = GreedyDecoder(model, START, END, 5)
    before = decoder.decode(SOURCE)
    rng = np.random.default_rng(5)
    model.set_weights([rng.normal(0, 0.7, weight.shape) for weight in model.get_weights()])
    after = decoder.decode(SOURCE)
    assert (before != after).any() and (after == naive(model, SOURCE, 5, END)).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, END, 5), r"start_id must be in 1 … 22 \(0 is padding\), got 0"),
        ((START, 23, 5), r"end_id must be in 1 … 22 \(0 is padding\), got 23"),
        ((START, END, 0), "max_length must be a positive integer, got 0"),
        ((START, END, 14), "max_length 14 is longer than the decoder's table of 13 sinusoidal pos"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        greedy_decode(talkative(0), SOURCE, *arguments)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (SOURCE[0], r"source must be \(batch, source\) integers, got int64 \(7,\)"),
        (SOURCE * 1.0, r"source must be \(batch, source\) integers, got float64 \(3, 7\)"),
        (SOURCE * [[1], [0], [1]], r"no key to attend to for \(batch, head, query\) \[1, 0, 0\]"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(source, text):
    with pytest.raises(ValueError, match=text):
        greedy_decode(talkative(0), source, START, END, 5)
