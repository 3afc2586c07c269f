import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers
from scipy.spatial import KDTree
from sklearn.decomposition import PCA

from measured.layouts import (
    disparity,
    principal_components,
    random_disparities,
    same_group_neighbours,
)

timeless = settings(deadline=None)  # a busy machine is not a failure


def random_points(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_a_line_is_its_own_first_component_by_hand():
    points = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    np.testing.assert_allclose(principal_components(points, 1), [[-5], [0], [5]], atol=1e-14)


@timeless
@given(seed=integers(0, 1000), count=integers(1, 5))
def test_agrees_with_scikit_learn_up_to_the_signs(seed, count):
    points = random_points(11, 13, seed=seed)
    theirs = PCA(count, svd_solver="full").fit_transform(points)
    np.testing.assert_allclose(
        np.abs(principal_components(points, count)), np.abs(theirs), atol=1e-9
    )


@pytest.mark.parametrize("seed", range(7))
def test_the_largest_weight_of_every_axis_is_positive(seed):
    points = random_points(11, 7, seed=seed)
    layout, centred = principal_components(points, 3), points - points.mean(axis=0)
    axes = np.linalg.lstsq(layout, centred, rcond=None)[0]  # layout @ axes is the best fit
    assert (axes[np.arange(3), np.abs(axes).argmax(axis=1)] > 0).all()


def test_the_order_of_points_does_not_mirror_the_picture():
    points, order = random_points(11, 7), np.random.default_rng(1).permutation(11)
    moved = principal_components(points[order])
    np.testing.assert_allclose(moved, principal_components(points)[order], atol=1e-12)


@timeless
@given(angle=floats(0, 6.3), scale=floats(0.1, 10), mirror=integers(0, 1), shift=floats(-5, 5))
def test_a_turned_scaled_shifted_or_mirrored_copy_has_disparity_zero(angle, scale, mirror, shift):
    layout = random_points(7, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    copy = scale * (layout * [1, 1 - 2 * mirror]) @ turn + shift
    assert disparity(layout, copy) < 1e-12


@timeless
@given(seed=integers(0, 1000))
def test_disparity_is_one_minus_the_square_of_the_singular_values_sum(seed):
    """The closed form of the best fit, without fitting."""
    one, two = random_points(2, 11, 3, seed=seed)
    units = [(x - x.mean(axis=0)) / np.linalg.norm(x - x.mean(axis=0)) for x in (one, two)]
    expected = 1 - np.linalg.svd(units[0].T @ units[1], compute_uv=False).sum() ** 2
    np.testing.assert_allclose(disparity(one, two), expected, atol=1e-12)


def test_a_line_and_a_square_are_half_alike_by_hand():
    # At size 1 the line has x = ±1/2, the square x, y = ±1/√8: singular values sum to 1/√2.
    line = np.array([[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    square = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    assert disparity(square, line) == pytest.approx(0.5, abs=1e-14)


def test_random_disparities_follow_their_seed_and_stay_below_one():
    reference = random_points(11, 2)
    first, again = (random_disparities(reference, draws=17, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (random_disparities(reference, draws=17, seed=6) != first).all()
    assert first.shape == (17,) and (first > 0).all() and (first < 1).all()


def test_random_layouts_are_normal_points_drawn_one_after_another():
    reference, generator = random_points(11, 2), np.random.default_rng(5)
    expected = [disparity(reference, generator.normal(size=(11, 2))) for _ in range(7)]
    np.testing.assert_allclose(random_disparities(reference, 7, seed=5), expected, atol=1e-12)


def test_neighbours_of_five_points_by_hand():
    points = [[0, 0], [1, 0], [1.5, 0], [9, 0], [9, 1]]
    # 0 looks at 1 (other group), 1 at 2, 2 at 1, 3 and 4 at each other.
    assert same_group_neighbours(points, ["a", "b", "b", "c", "c"]) == 4
    assert same_group_neighbours(points, ["a", "b", "c", "d", "e"]) == 0


@timeless
@given(seed=integers(0, 1000))
def test_neighbours_agree_with_a_tree_search(seed):
    points = random_points(23, 3, seed=seed)
    groups = np.random.default_rng(seed).integers(0, 3, 23)
    nearest = KDTree(points).query(points, k=2)[1][:, 1]
    assert same_group_neighbours(points, groups) == sum(groups[nearest] == groups)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: principal_components(np.ones(3)), r"points must be \(points, width\).*\(3,\)"),
        (lambda: principal_components(np.ones((1, 3))), r"at least two; got shape \(1, 3\)"),
        (lambda: principal_components(np.ones((5, 3)), 4), "count must be 1 to 3, got 4"),
        (lambda: disparity(np.ones((5, 2)), np.ones((4, 2))), r"got shapes \(5, 2\) and \(4, 2\)"),
        (lambda: same_group_neighbours(np.ones((5, 2)), "ab"), r"groups must be \(5,\), got shape"),
    ],
)
def test_a_wrong_shape_is_refused_with_what_was_required(call, message):
    with pytest.raises(ValueError, match=message):
        call()
