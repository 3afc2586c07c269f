"""Which query may attend to which key: True means attend.

Masks are boolean, of rank four, and broadcast to (batch, heads, query, key). Only
`measured.attention` turns one into scores. Source: Vaswani et al. (2017), section 3.2.3,
arXiv:1706.03762.
"""

import keras
import numpy as np
from keras import ops

# Vaswani et al. write minus infinity. A finite number that float32 can hold is the usual stand-in:
# exp(-1e9) is exactly 0, and no row becomes NaN.
HIDDEN = -1e9


def padding_mask(tokens, pad_id=0):
    """Hide padding: tokens (batch, key) -> mask (batch, 1, 1, key).

    The tokens are those that supply keys and values: the source's, in cross-attention.
    """
    if len(tokens.shape) != 2:
        raise ValueError(f"tokens must be (batch, key), got shape {tuple(tokens.shape)}")
    return ops.not_equal(tokens, pad_id)[:, None, None, :]


def causal_mask(query_length, past=0):
    """Hide the future: -> mask (1, 1, query, past + query). A cache holds the `past` keys."""
    if query_length < 1 or past < 0:
        raise ValueError(f"need query_length >= 1 and past >= 0, got {query_length} and {past}")
    query = ops.arange(past, past + query_length)[:, None]
    return (ops.arange(past + query_length)[None, :] <= query)[None, None]


def combine_masks(*masks):
    """Attend where every mask says so: masks of rank four -> their logical and, of rank four.

    An axis of a symbolic mask may be unknown (None); it agrees with every size.
    """
    if not masks:
        raise ValueError("need at least one mask to combine")
    combined = masks[0]
    for mask in masks:
        check_mask(mask, 4)
        sizes = zip(mask.shape, combined.shape, strict=True)
        if any(None not in pair and 1 not in pair and len(set(pair)) > 1 for pair in sizes):
            raise ValueError(
                f"mask {tuple(mask.shape)} does not fit the masks before it, "
                f"which make {tuple(combined.shape)}"
            )
        combined = ops.logical_and(combined, mask)
    return combined


def additive_mask(mask, dtype="float32"):
    """What to add to the scores: mask -> 0 where it attends, -1e9 where it hides, same shape.

    float16 ends at 65504 and would turn -1e9 into minus infinity, so it is refused.
    """
    check_mask(mask, len(mask.shape))
    if dtype == "float16":
        raise TypeError("dtype float16 cannot hold -1e9; mask the scores with measured.attention")
    return ops.where(mask, ops.cast(0.0, dtype), ops.cast(HIDDEN, dtype))


def refuse_blind_queries(mask):
    """Return the mask, or raise where a query may attend to nothing. Needs concrete values."""
    check_mask(mask, 4)
    blind = np.argwhere(~np.any(ops.convert_to_numpy(mask), axis=-1))
    # No answer is right here. Keras 3.15 has two: zeros when it returns weights, else a plain mean.
    if blind.size:
        raise ValueError(f"no key to attend to for (batch, head, query) {blind[0].tolist()}")
    return mask


def check_mask(mask, rank):
    """Refuse a mask that is not boolean or has another rank than the scores."""
    dtype = keras.utils.standardize_dtype(mask.dtype)
    if dtype != "bool":
        raise TypeError(f"mask must be bool with True = attend, got {dtype}")
    if len(mask.shape) != rank:
        raise ValueError(f"mask must have rank {rank}, got shape {tuple(mask.shape)}")
