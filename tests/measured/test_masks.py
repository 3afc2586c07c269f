import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists
from keras import ops

from measured.attention import scaled_dot_product_attention
from measured.masks import (
    additive_mask,
    causal_mask,
    combine_masks,
    padding_mask,
    refuse_blind_queries,
)

TOKENS = np.array([[3, 1, 4, 1, 5], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])


def test_padding_mask_of_three_sequences_by_hand():
    mask = np.array(padding_mask(TOKENS))
    assert mask.shape == (3, 1, 1, 5) and mask.dtype == bool
    assert mask[:, 0, 0].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]


def test_padding_may_have_another_id_than_zero():
    assert np.array(padding_mask(np.array([[7, 0, 7]]), pad_id=7)).tolist() == [[[[0, 1, 0]]]]


def test_causal_mask_of_three_by_hand():
    assert np.array(causal_mask(3))[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_causal_mask_of_two_after_three_cached_keys_by_hand():
    mask = np.array(causal_mask(2, past=3))
    assert mask.shape == (1, 1, 2, 5)
    assert mask[0, 0].tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


@given(length=integers(1, 13), past=integers(0, 13))
@settings(deadline=None)
def test_one_cached_step_sees_what_the_full_pass_saw(length, past):
    full, step = causal_mask(length + past), causal_mask(length, past)
    np.testing.assert_array_equal(step, full[:, :, past:])


@given(length=integers(1, 17))
@settings(deadline=None)
def test_causal_mask_keeps_the_lower_triangle_of_numpy(length):
    np.testing.assert_array_equal(causal_mask(length)[0, 0], np.tri(length, dtype=bool))


def test_agrees_with_the_causal_attention_of_keras():
    rng = np.random.default_rng(7)
    query, key, value = rng.normal(size=(3, 2, 7, 3, 5)).astype("float32")
    ours = ops.dot_product_attention(query, key, value, mask=causal_mask(7))
    theirs = ops.dot_product_attention(query, key, value, is_causal=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)  # float32, sums of 7 terms


@given(lists(lists(integers(0, 3), min_size=5, max_size=5), min_size=2, max_size=2))
@settings(deadline=None)
def test_combined_mask_attends_where_a_loop_finds_a_real_token_that_is_not_later(rows):
    tokens = np.array(rows)
    combined = np.array(combine_masks(padding_mask(tokens), causal_mask(5)))
    assert combined.shape == (2, 1, 5, 5)
    for batch in range(2):
        for query in range(5):
            for key in range(5):
                wanted = tokens[batch, key] != 0 and key <= query
                assert combined[batch, 0, query, key] == wanted


def test_the_order_of_combined_masks_does_not_matter():
    padding, causal = padding_mask(TOKENS), causal_mask(5)
    np.testing.assert_array_equal(combine_masks(padding, causal), combine_masks(causal, padding))


def test_one_mask_combines_to_itself():
    np.testing.assert_array_equal(combine_masks(causal_mask(3)), causal_mask(3))


def test_additive_mask_gives_the_weights_of_the_boolean_mask():
    rng = np.random.default_rng(3)
    query, key = rng.normal(size=(2, 3, 2, 5, 7)).astype("float32")
    mask = combine_masks(padding_mask(TOKENS), causal_mask(5))[:2]  # the third starts with padding
    _, weights = scaled_dot_product_attention(query[:2], key[:2], key[:2], mask=mask)
    scores = np.einsum("bhqw,bhkw->bhqk", query, key)[:2] / np.sqrt(7)
    added = ops.softmax(scores + np.array(additive_mask(mask)))
    np.testing.assert_allclose(weights, added, atol=1e-6)  # float32, sums of 5 terms
    np.testing.assert_array_equal(np.array(weights) == 0, np.array(added) == 0)


def test_additive_mask_by_hand():
    added = np.array(additive_mask(np.array([True, False])))
    assert added.tolist() == [0, -1e9] and added.dtype == np.float32


def test_masks_are_built_inside_a_symbolic_model():
    tokens = keras.Input((5,), dtype="int32")
    model = keras.Model(tokens, combine_masks(padding_mask(tokens), causal_mask(5)))
    np.testing.assert_array_equal(
        model(TOKENS), combine_masks(padding_mask(TOKENS), causal_mask(5))
    )


def test_tokens_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"tokens must be \(batch, key\), got shape \(5,\)"):
        padding_mask(TOKENS[0])


@pytest.mark.parametrize(("length", "past"), [(0, 2), (3, -1)])
def test_a_causal_mask_without_queries_or_with_a_negative_past_is_refused(length, past):
    with pytest.raises(ValueError, match=f"past >= 0, got {length} and {past}"):
        causal_mask(length, past)


def test_a_query_without_keys_is_refused_by_place():
    tokens = TOKENS.copy()
    tokens[1] = 0
    with pytest.raises(ValueError, match=r"\(batch, head, query\) \[1, 0, 0\]"):
        refuse_blind_queries(padding_mask(tokens))


def test_left_padding_and_look_ahead_together_leave_a_blind_query():
    with pytest.raises(ValueError, match=r"\(batch, head, query\) \[2, 0, 0\]"):
        refuse_blind_queries(combine_masks(padding_mask(TOKENS), causal_mask(5)))


def test_a_mask_without_blind_queries_passes_unchanged():
    mask = padding_mask(TOKENS)
    assert refuse_blind_queries(mask) is mask


def test_combining_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one mask"):
        combine_masks()


def test_combining_masks_of_another_rank_is_refused():
    with pytest.raises(ValueError, match=r"mask must have rank 4, got shape \(5, 5\)"):
        combine_masks(padding_mask(TOKENS), np.tri(5, dtype=bool))


def test_combining_numbers_is_refused():
    with pytest.raises(TypeError, match="mask must be bool with True = attend, got float32"):
        combine_masks(additive_mask(causal_mask(5)))


def test_combining_two_lengths_is_refused():
    message = r"mask \(1, 1, 4, 4\) does not fit the masks before it, which make \(3, 1, 1, 5\)"
    with pytest.raises(ValueError, match=message):
        combine_masks(padding_mask(TOKENS), causal_mask(4))


def test_an_additive_mask_in_half_precision_is_refused():
    with pytest.raises(TypeError, match="float16 cannot hold -1e9"):
        additive_mask(causal_mask(3), dtype="float16")
