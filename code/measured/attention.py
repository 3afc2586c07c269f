"""Softmax and scaled dot-product attention, written out.

In `keras.ops`, so that NumPy arrays, eager tensors and symbolic ones all pass, gradients flow and
a given dtype stays. Source: Vaswani et al. (2017), section 3.2.1, equation 1, arXiv:1706.03762.
"""

import math

from keras import ops

from measured.masks import check_mask


def softmax(scores, axis=-1):
    """Weights that are positive and sum to 1 over `axis`: scores -> weights, same shape.

    A score of minus infinity gets the weight 0; if all scores of a row are, the row is NaN.
    """
    # exp overflows float32 from 89 on; the quotient does not change when all scores are shifted.
    shifted = ops.exp(scores - ops.max(scores, axis=axis, keepdims=True))
    return shifted / ops.sum(shifted, axis=axis, keepdims=True)


def scaled_dot_product_attention(query, key, value, *, mask=None):
    """Mix the values by how well query and key agree: -> output (..., query, value_width),
    weights (..., query, key).

    Takes query (..., query, width), key (..., key, width), value (..., key, value_width) of one
    rank with the same leading axes. The mask is boolean, True = attend, of the weights' rank;
    each of its axes is 1 or that of the weights. A hidden key gets the weight 0 exactly. A query
    without any key becomes NaN: see `measured.masks.refuse_blind_queries`.
    """
    _check_inputs(query, key, value)
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) / math.sqrt(query.shape[-1])
    if mask is not None:
        _check_mask(mask, scores.shape)
        scores = ops.where(mask, scores, -math.inf)
    weights = softmax(scores)
    return ops.matmul(weights, value), weights


def _check_inputs(query, key, value):
    shapes = [tuple(array.shape) for array in (query, key, value)]
    said = "query {}, key {}, value {}".format(*shapes)
    if len({len(shape) for shape in shapes}) > 1 or len(shapes[0]) < 2:
        raise ValueError(f"query, key and value must share one rank of at least 2, got {said}")
    of_query, of_key, of_value = shapes
    if _differ(of_query[:-2], of_key[:-2]) or _differ(of_key[:-2], of_value[:-2]):
        raise ValueError(f"query, key and value must have the same leading axes, got {said}")
    if _differ(of_query[-1:], of_key[-1:]):
        raise ValueError(f"query and key must have the same width, got {said}")
    if _differ(of_key[-2:-1], of_value[-2:-1]):
        raise ValueError(f"key and value must have the same length, got {said}")


def _check_mask(mask, shape):
    check_mask(mask, len(shape))
    axes = [(ours, theirs) for ours, theirs in zip(mask.shape, shape, strict=True) if ours != 1]
    if axes and _differ(*zip(*axes, strict=True)):
        raise ValueError(
            f"each axis of the mask must be 1 or that of the weights {tuple(shape)}, "
            f"got shape {tuple(mask.shape)}"
        )


def _differ(axes, others):
    """Whether two tuples of sizes disagree; an unknown size (None, symbolic) agrees with all."""
    return any(None not in pair and pair[0] != pair[1] for pair in zip(axes, others, strict=True))
