import numpy as np
import pytest
from keras import ops

from measured.attention import scaled_dot_product_attention
from measured.leaks import Leak, future_leak, padding_leak
from measured.masks import causal_mask, padding_mask

RNG = np.random.default_rng(4)
INPUTS, OTHER = RNG.normal(size=(2, 3, 7, 5)).astype("float32")  # (batch 3, sequence 7, width 5)
REAL = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]], dtype=bool)


def attend(mask):
    """Self-attention of one head over inputs (batch, sequence, width)."""
    return lambda inputs: scaled_dot_product_attention(inputs, inputs, inputs, mask=mask)[0]


def means(visible):
    """Averages instead of attention: a leak whose size is known."""
    return lambda inputs: np.stack([inputs[:, visible(t)].mean(1) for t in range(7)], axis=1)


def test_causal_attention_has_no_future_leak():
    assert future_leak(attend(causal_mask(7)[0]), INPUTS, OTHER) is None


def test_attention_without_a_mask_leaks_at_once():
    leak = future_leak(attend(None), INPUTS, OTHER)
    assert (leak.batch, leak.position, leak.changed) == (0, 0, (1,))


def test_a_mask_that_is_off_by_one_leaks():
    leak = future_leak(attend(np.tri(7, k=1, dtype=bool)[None]), INPUTS, OTHER)
    assert (leak.batch, leak.position, leak.changed) == (0, 0, (1,))


def test_a_leak_of_one_late_query_is_found_at_its_place():
    mask = np.tri(7, dtype=bool)
    mask[4, 6] = True
    leak = future_leak(attend(mask[None]), INPUTS, OTHER)
    assert (leak.batch, leak.position, leak.changed) == (0, 4, (6,))


def test_an_inverted_mask_leaks_although_its_last_query_is_nan():
    leak = future_leak(attend(~np.tri(7, dtype=bool)[None]), INPUTS, OTHER)
    assert (leak.batch, leak.position, leak.changed) == (0, 0, (1,))


def test_the_size_of_a_leak_by_hand():
    inputs = np.arange(7.0)[None]
    leak = future_leak(lambda x: x[:, :1] + np.eye(7)[5] * x[:, 6:], inputs, inputs + 8)
    assert leak == Leak(batch=0, position=5, changed=(6,), by=8.0)


def test_the_smallest_difference_that_float32_has_is_a_leak():
    one, next_one = np.float32(1), np.nextafter(np.float32(1), np.float32(2))

    def model(tokens):
        return np.where((np.arange(7) == 2) & (tokens[:, 4:5] == 9), next_one, one) + 0 * tokens

    tokens = np.zeros((1, 7), dtype="float32")
    tokens[:, 0] = 5
    other = np.full((1, 7), 9, dtype="float32")
    leak = future_leak(model, tokens, other)
    assert leak.position == 2 and leak.changed == (4,) and leak.by == next_one - one


def test_tokens_may_be_integers():
    tokens = np.array([[1, 2, 3, 4]])
    table = np.random.default_rng(1).normal(size=(9, 5))
    model = attend(causal_mask(4)[0])
    assert future_leak(lambda ids: model(table[ids]), tokens, tokens + 4) is None
    assert future_leak(lambda ids: attend(None)(table[ids]), tokens, tokens + 4).position == 0


def test_a_padding_mask_has_no_padding_leak():
    assert padding_leak(attend(padding_mask(REAL, pad_id=False)[:, 0]), INPUTS, OTHER, REAL) is None


def test_a_mask_that_hides_queries_in_place_of_keys_leaks():
    leak = padding_leak(attend(ops.broadcast_to(REAL[:, :, None], (3, 7, 7))), INPUTS, OTHER, REAL)
    assert (leak.batch, leak.position, leak.changed) == (0, 0, (5, 6))


def test_only_the_sequence_whose_padding_is_seen_leaks():
    mask = REAL.copy()
    mask[1] = True
    leak = padding_leak(attend(mask[:, None]), INPUTS, OTHER, REAL)
    assert (leak.batch, leak.position, leak.changed) == (1, 0, (3,))


def test_a_leak_reads_as_a_sentence():
    assert str(Leak(1, 2, (5, 6), 0.25)) == (
        "output (batch 1, position 2) moved by 0.25 when input 5, 6 changed"
    )


def test_an_input_that_is_not_changed_is_refused():
    other = OTHER.copy()
    other[1, 4] = INPUTS[1, 4]
    with pytest.raises(ValueError, match=r"agree at \(batch, position\) \[1, 4\]: nothing changes"):
        future_leak(attend(None), INPUTS, other)


def test_inputs_of_two_shapes_are_refused():
    with pytest.raises(ValueError, match=r"one shape .* got \(3, 7, 5\) and \(2, 7, 5\)"):
        future_leak(attend(None), INPUTS, OTHER[:2])


def test_a_model_that_does_not_keep_the_sequence_is_refused():
    with pytest.raises(ValueError, match=r"must return .* = \(3, 7\), got shape \(3, 5\)"):
        future_leak(lambda inputs: inputs.mean(1), INPUTS, OTHER)


def test_a_model_with_dropout_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="two calls on the same inputs differ"):
        future_leak(lambda inputs: inputs * rng.random(inputs.shape), INPUTS, OTHER)


def test_a_model_that_ignores_its_inputs_is_refused():
    with pytest.raises(ValueError, match="depends on no input"):
        future_leak(lambda inputs: np.ones((3, 7)), INPUTS, OTHER)


def test_a_batch_without_padding_is_refused():
    with pytest.raises(ValueError, match="no position is padding"):
        padding_leak(attend(None), INPUTS, OTHER, np.ones((3, 7), dtype=bool))


def test_a_padding_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"real must be \(3, 7\) as the inputs, got shape \(7,\)"):
        padding_leak(attend(None), INPUTS, OTHER, REAL[0])


def test_averages_of_the_past_do_not_leak_and_of_all_do():
    assert future_leak(means(lambda t: slice(0, t + 1)), INPUTS, OTHER) is None
    leak = future_leak(means(lambda t: slice(None)), INPUTS, OTHER)
    assert leak.by == pytest.approx(np.abs(OTHER[0, 1] - INPUTS[0, 1]).max() / 7, abs=1e-6)
