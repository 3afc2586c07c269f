"""Where a token stands, as numbers: sinusoids, rotary rotations, ALiBi.

Sources: Vaswani et al. (2017), section 3.5, arXiv:1706.03762; Su et al. (2021), arXiv:2104.09864;
Press et al. (2022), arXiv:2108.12409. All is NumPy and float64 where no dtype is asked for.
"""

import numpy as np

LAYOUTS = ("interleaved", "halves")


def angles(positions, depth, base=10000.0):
    """Angles in radians: positions (length,) -> (length, depth). Columns 2i and 2i+1 are equal."""
    positions = np.asarray(positions, dtype=np.float64)
    if positions.ndim != 1:
        raise ValueError(f"positions must be (length,), got shape {positions.shape}")
    _refuse_small("depth", depth)
    if not base > 0:
        raise ValueError(f"base must be positive, got {base}")
    pair = np.arange(depth) // 2
    return positions[:, None] / base ** (2 * pair / depth)


def positional_encoding(length, depth, base=10000.0, layout="interleaved", dtype="float64"):
    """Sinusoids of positions 0 … length - 1: -> (length, depth).

    Interleaved puts the sine of pair i in column 2i and its cosine in 2i+1; halves puts all sines
    first. An odd depth leaves its last pair without a cosine. Computed in float64, then cast.
    """
    _refuse_small("length", length)
    encoding = angles(np.arange(length), depth, base)
    encoding[:, 0::2] = np.sin(encoding[:, 0::2])
    encoding[:, 1::2] = np.cos(encoding[:, 1::2])
    if _known(layout) == "halves":
        encoding = encoding[:, halves_order(depth)]
    return encoding.astype(dtype)


def halves_order(depth):
    """Column order (depth,) with interleaved[..., order] == halves. np.argsort of it goes back."""
    _refuse_small("depth", depth)
    return np.concatenate([np.arange(0, depth, 2), np.arange(1, depth, 2)])


def rotary(x, positions=None, base=10000.0, layout="interleaved"):
    """Turn each pair of columns by its angle: (batch, heads, sequence, key_dim) -> the same shape.

    Apply it to queries and keys, never to values; the dtype is kept. Positions (sequence,) default
    to 0, 1, 2, …. Interleaved turns columns 2i and 2i+1 together; halves turns i and i + key_dim/2.
    Weights trained under one layout give wrong scores, and no error, under the other.
    """
    x = np.asarray(x)
    if x.ndim != 4:
        raise ValueError(f"x must be (batch, heads, sequence, key_dim), got shape {x.shape}")
    if not np.issubdtype(x.dtype, np.floating):
        raise TypeError(f"x must be floating point, got {x.dtype}")
    sequence, key_dim = x.shape[2:]
    if key_dim % 2:
        raise ValueError(f"key_dim must be even, columns turn in pairs; got {key_dim}")
    positions = np.arange(sequence) if positions is None else np.asarray(positions)
    if positions.shape != (sequence,):
        raise ValueError(f"positions must be ({sequence},), got shape {positions.shape}")
    theta = angles(positions, key_dim, base)[:, ::2]
    cosine, sine = np.cos(theta).astype(x.dtype), np.sin(theta).astype(x.dtype)
    if _known(layout) == "interleaved":
        first, second = slice(0, None, 2), slice(1, None, 2)
    else:
        first, second = slice(None, key_dim // 2), slice(key_dim // 2, None)
    turned = np.empty_like(x)
    turned[..., first] = x[..., first] * cosine - x[..., second] * sine
    turned[..., second] = x[..., first] * sine + x[..., second] * cosine
    return turned


def alibi_slopes(num_heads):
    """Slopes (num_heads,): 2^(-8/n), 2^(-16/n), … for n heads. A power of two, as in the paper."""
    _refuse_small("num_heads", num_heads)
    if num_heads & (num_heads - 1):
        raise ValueError(f"num_heads must be a power of two, got {num_heads}")
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


def alibi_bias(num_heads, length):
    """What ALiBi adds to causal scores: -> (1, heads, query, key), -slope · (query - key).

    Keys after their query get 0, not minus infinity: the causal mask has to hide them.
    """
    _refuse_small("length", length)
    behind = np.arange(length)[:, None] - np.arange(length)
    return -alibi_slopes(num_heads)[None, :, None, None] * np.maximum(behind, 0)


def gram(rows):
    """Dot product of every row with every other: (length, depth) -> (length, length)."""
    rows = _matrix(rows)
    return rows @ rows.T


def distances(rows):
    """Euclidean distance of every row from every other: (length, depth) -> (length, length).

    Differences come first: expanding the square loses half the digits of a short distance.
    """
    rows = _matrix(rows)
    return np.linalg.norm(rows[:, None] - rows[None], axis=-1)


def by_separation(square):
    """Mean and spread of each diagonal: (length, length) -> means (length,), spreads (length,).

    Entry k is about the pairs k positions apart; its spread is their largest minus smallest value.
    """
    square = np.asarray(square)
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise ValueError(f"square must be (length, length), got shape {square.shape}")
    diagonals = [np.diagonal(square, k) for k in range(len(square))]
    return np.array([d.mean() for d in diagonals]), np.array([np.ptp(d) for d in diagonals])


def first_rise(profile):
    """The first k with profile[k] > profile[k - 1] for profile (length,), or None."""
    profile = np.asarray(profile)
    if profile.ndim != 1:
        raise ValueError(f"profile must be (length,), got shape {profile.shape}")
    rises = np.flatnonzero(np.diff(profile) > 0)
    return int(rises[0]) + 1 if rises.size else None


def _matrix(rows):
    rows = np.asarray(rows)
    if rows.ndim != 2:
        raise ValueError(f"rows must be (length, depth), got shape {rows.shape}")
    return rows


def _refuse_small(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def _known(layout):
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
    return layout
