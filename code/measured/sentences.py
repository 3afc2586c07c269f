"""One vector a sentence: the mean of its tokens' states, scaled to length 1.

So all-MiniLM-L6-v2 is meant to be used: it was trained on pairs of sentences whose vectors should
be close. Its card says: mean over real tokens, [CLS] and [SEP] among them, then normalised. Source:
Reimers and Gurevych (2019), section 3, arXiv:1908.10084.
"""

import numpy as np

# What the book embeds: three pairs that say nearly the same, and two that share words only.
SENTENCES = (
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping by the window in the sun.",
    "The bank raised its interest rates again this week, to the dismay of everyone with a loan.",
    "Borrowing has become more expensive.",
    "How do I bake bread without yeast?",
    "Recipe for a loaf that needs no leavening, for those who have an hour and a hot oven",
    "The river burst its bank again this week.",
    "Rates.",
)


def mean_pool(states, tokens=None):
    """Mean over the sequence: states (batch, sequence, width) -> float64 (batch, width).

    With `tokens` (batch, sequence) over real tokens only; without, padding counts too, which is
    the mistake to measure.
    """
    states = np.asarray(states, dtype="float64")
    if states.ndim != 3:
        raise ValueError(f"states must be (batch, sequence, width), got shape {states.shape}")
    if tokens is None:
        return states.mean(axis=1)
    real = np.asarray(tokens) != 0
    if real.shape != states.shape[:2]:
        raise ValueError(f"tokens must be {states.shape[:2]} as the states, got {real.shape}")
    if not real.any(axis=1).all():
        raise ValueError(f"row {int(real.any(axis=1).argmin())} has no token to take the mean of")
    return np.where(real[:, :, None], states, 0).sum(axis=1) / real.sum(axis=1, keepdims=True)


def unit(vectors):
    """Vectors scaled to length 1 along the last axis, float64: their products are cosines."""
    vectors = np.asarray(vectors, dtype="float64")
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def sentence_vectors(bert, wordpiece, texts, length=None):
    """Texts -> float64 (texts, d_model), each of length 1; `length` as in `WordPiece.batch`."""
    tokens, segments = wordpiece.batch(texts, length)
    return unit(mean_pool(bert(tokens, segments), tokens))
