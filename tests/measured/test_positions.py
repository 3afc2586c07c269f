import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import floats, integers, sampled_from

from measured.positions import (
    LAYOUTS,
    alibi_bias,
    alibi_slopes,
    angles,
    by_separation,
    distances,
    first_rise,
    gram,
    halves_order,
    positional_encoding,
    rotary,
)

timeless = settings(deadline=None)  # a busy machine is not a failure


def encoding_by_the_paper(length, depth):
    """Section 3.5 read aloud, one entry at a time, with Python's own sine and cosine."""
    table = [[0.0] * depth for _ in range(length)]
    for pos in range(length):
        for column in range(depth):
            i = column // 2
            angle = pos / math.pow(10000, 2 * i / depth)
            table[pos][column] = math.sin(angle) if column == 2 * i else math.cos(angle)
    return np.array(table)


def turned_by_complex_numbers(x, base=10000.0):
    """Rotary, interleaved, as in the paper's complex form: a product with e^(i·position·theta)."""
    depth = x.shape[-1]
    speeds = np.array([base ** (-2 * i / depth) for i in range(depth // 2)])
    factor = np.exp(1j * np.arange(x.shape[2])[:, None] * speeds)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * factor
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def random_heads(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_angles_of_four_positions_by_hand():
    expected = [[p, p, p / 10, p / 10, p / 100, p / 100, p / 1000, p / 1000] for p in range(4)]
    np.testing.assert_allclose(angles(range(4), 8), expected, rtol=1e-15)  # powers of ten


def test_first_two_rows_in_four_dimensions_by_hand():
    rows = positional_encoding(2, 4)
    assert rows[0].tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(rows[1], [0.84147, 0.54030, 0.01000, 0.99995], atol=5e-6)


@timeless
@given(length=integers(1, 23), depth=integers(1, 29))
def test_agrees_with_the_paper_entry_by_entry(length, depth):
    expected = encoding_by_the_paper(length, depth)
    np.testing.assert_allclose(positional_encoding(length, depth), expected, atol=1e-14)


@timeless
@given(length=integers(1, 31), half=integers(1, 37), layout=sampled_from(LAYOUTS))
def test_every_row_of_even_depth_is_root_of_half_the_depth_long(length, half, layout):
    lengths = np.linalg.norm(positional_encoding(length, 2 * half, layout=layout), axis=1)
    np.testing.assert_allclose(lengths, math.sqrt(half), rtol=1e-14)


@timeless
@given(depth=integers(1, 17), base=floats(2, 1e6), separation=integers(0, 13), a=integers(0, 17))
def test_distance_depends_on_the_separation_only(depth, base, separation, a):
    rows = positional_encoding(31, 2 * depth, base=base)
    start = np.linalg.norm(rows[separation] - rows[0])
    np.testing.assert_allclose(np.linalg.norm(rows[a + separation] - rows[a]), start, atol=1e-12)


def test_distance_in_odd_depth_depends_on_the_place_too():
    rows = positional_encoding(702, 3)
    # The lone sine climbs by 0.00215 at first and is flat at its crest, near position 729.
    early, late = (np.linalg.norm(rows[p + 1] - rows[p]) for p in (0, 700))
    assert early - late > 1e-6


@timeless
@given(depth=integers(1, 41))
def test_halves_are_all_sines_then_all_cosines(depth):
    halves = positional_encoding(11, depth, layout="halves")
    interleaved = positional_encoding(11, depth)
    sines = (depth + 1) // 2
    np.testing.assert_array_equal(halves[:, :sines], interleaved[:, 0::2])
    np.testing.assert_array_equal(halves[:, sines:], interleaved[:, 1::2])


@timeless
@given(depth=integers(1, 41))
def test_argsort_of_the_halves_order_goes_back(depth):
    order = halves_order(depth)
    assert order[np.argsort(order)].tolist() == list(range(depth))


def test_halves_order_of_five_by_hand():
    assert halves_order(5).tolist() == [0, 2, 4, 1, 3]


def test_dtype_is_the_one_asked_for_and_is_rounded_last():
    double, single = positional_encoding(13, 7), positional_encoding(13, 7, dtype="float32")
    assert double.dtype == np.float64 and single.dtype == np.float32
    np.testing.assert_array_equal(single, double.astype("float32"))


@timeless
@given(x=arrays(np.float64, (2, 3, 5, 14), elements=floats(-9, 9)), base=floats(2, 1e5))
def test_rotary_agrees_with_complex_multiplication(x, base):
    np.testing.assert_allclose(rotary(x, base=base), turned_by_complex_numbers(x, base), atol=1e-13)


def test_rotary_of_one_pair_by_hand():
    x = np.array([[[[1.0, 0.0], [1.0, 0.0]]]])
    expected = [[1, 0], [math.cos(1), math.sin(1)]]
    np.testing.assert_allclose(rotary(x)[0, 0], expected, atol=1e-16)


@timeless
@given(shift=integers(0, 1000), layout=sampled_from(LAYOUTS), base=floats(2, 1e5))
def test_rotary_scores_depend_on_the_offset_only(shift, layout, base):
    query, key = random_heads(2, 2, 3, 7, 10)
    scores = [
        rotary(query, at, base, layout) @ rotary(key, at, base, layout).swapaxes(2, 3)
        for at in (np.arange(7), np.arange(7) + shift)
    ]
    # Angles near 1000 carry an error of 1e-13 each, and ten products add up.
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-10)


@timeless
@given(half=integers(1, 11), start=integers(0, 50))
def test_rotary_layouts_agree_up_to_the_permutation_of_columns(half, start):
    x, order = random_heads(2, 3, 5, 2 * half), halves_order(2 * half)
    at = np.arange(5) + start
    turned = rotary(x[..., order], at, layout="halves")
    np.testing.assert_array_equal(turned, rotary(x, at)[..., order])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_keeps_lengths_dtype_and_its_argument(layout):
    x = random_heads(2, 3, 5, 14).astype("float32")
    before = x.copy()
    turned = rotary(x, layout=layout)
    assert turned.dtype == np.float32
    np.testing.assert_array_equal(x, before)
    lengths = [np.linalg.norm(y, axis=-1) for y in (turned, x)]
    np.testing.assert_allclose(*lengths, rtol=1e-6)  # float32, sums of 14 terms


def test_rotary_of_ones_scores_twice_the_sinusoids():
    ones = rotary(np.ones((1, 1, 13, 22)))[0, 0]
    np.testing.assert_allclose(ones @ ones.T, 2 * gram(positional_encoding(13, 22)), atol=1e-12)


def test_two_bases_give_two_results():
    x = random_heads(1, 1, 5, 6)
    assert not np.allclose(rotary(x, base=100.0), rotary(x))
    np.testing.assert_allclose(rotary(x, base=100.0), turned_by_complex_numbers(x, 100.0))


def test_alibi_slopes_of_the_paper():
    assert alibi_slopes(8).tolist() == [1 / 2**k for k in range(1, 9)]  # section 3
    np.testing.assert_allclose(alibi_slopes(16)[:2], [2**-0.5, 2**-1], rtol=1e-15)


def test_alibi_bias_of_two_heads_by_hand():
    bias = alibi_bias(2, 3)
    assert bias.shape == (1, 2, 3, 3)
    assert (bias[0, 0] * 16).tolist() == [[0, 0, 0], [-1, 0, 0], [-2, -1, 0]]
    assert (bias[0, 1] * 256).tolist() == [[0, 0, 0], [-1, 0, 0], [-2, -1, 0]]


def test_gram_and_distances_by_hand():
    rows = np.array([[3.0, 0.0], [0.0, 4.0]])
    assert gram(rows).tolist() == [[9, 0], [0, 16]]
    assert distances(rows).tolist() == [[0, 5], [5, 0]]


def test_short_distances_keep_their_digits():
    rows = np.array([[1e8, 0.0], [1e8, 1e-3]])
    assert distances(rows)[0, 1] == 1e-3


def test_by_separation_of_a_small_square_by_hand():
    means, spreads = by_separation([[1, 2, 9], [0, 3, 5], [0, 0, 8]])
    assert means.tolist() == [4, 3.5, 9]
    assert spreads.tolist() == [7, 3, 0]


@pytest.mark.parametrize(
    ("profile", "expected"), [([3, 2, 2, 1], None), ([3, 2, 2.5, 9], 2), ([1, 2], 1), ([7], None)]
)
def test_first_rise_by_hand(profile, expected):
    assert first_rise(profile) == expected


@pytest.mark.parametrize(
    ("depth", "expected"), [(8, 4), (64, 6), (100, 12), (128, 12), (512, 44), (1024, 69)]
)
def test_first_rise_of_the_sum_of_cosines(depth, expected):
    """The profile of the Gram matrix, from the sum that its rows stand for."""
    profile = [
        sum(math.cos(k / 10000 ** (2 * i / depth)) for i in range(depth // 2)) for k in range(100)
    ]
    assert next(k for k in range(1, 100) if profile[k] > profile[k - 1]) == expected
    assert first_rise(gram(positional_encoding(100, depth))[0]) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: angles([[0, 1]], 4), r"positions must be \(length,\), got shape \(1, 2\)"),
        (lambda: angles([0, 1], 0), "depth must be at least 1, got 0"),
        (lambda: angles([0, 1], 4, base=0), "base must be positive, got 0"),
        (lambda: positional_encoding(0, 4), "length must be at least 1, got 0"),
        (lambda: positional_encoding(3, 4, layout="half"), "interleaved, halves; got 'half'"),
        (lambda: rotary(np.ones((2, 3, 4))), r"\(batch, heads, sequence, key_dim\), got shape"),
        (lambda: rotary(np.ones((1, 1, 2, 5))), "key_dim must be even.* got 5"),
        (lambda: rotary(np.ones((1, 1, 2, 4)), [0, 1, 2]), r"positions must be \(2,\), got"),
        (lambda: rotary(np.ones((1, 1, 2, 4)), layout="pairs"), "layout must be one of"),
        (lambda: alibi_slopes(6), "num_heads must be a power of two, got 6"),
        (lambda: alibi_bias(2, 0), "length must be at least 1, got 0"),
        (lambda: gram(np.ones(3)), r"rows must be \(length, depth\), got shape \(3,\)"),
        (lambda: distances(np.ones((1, 2, 3))), r"rows must be \(length, depth\)"),
        (lambda: by_separation(np.ones((2, 3))), r"square must be \(length, length\), got shape"),
        (lambda: first_rise(np.ones((2, 3))), r"profile must be \(length,\), got shape \(2, 3\)"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_was_required(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: positional_encoding(3.0, 4), "length must be an integer, got 3.0"),
        (lambda: positional_encoding(3, True), "depth must be an integer, got True"),
        (lambda: rotary(np.ones((1, 1, 2, 4), dtype=int)), "x must be floating point, got int64"),
    ],
)
def test_a_wrong_type_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
