"""Layouts of a few points in the plane: draw them, compare two, count neighbours of one group.

Sources: Gower (1975), Generalized Procrustes Analysis; Pearson (1901) for principal components.
"""

import numpy as np
from scipy.spatial import procrustes


def principal_components(points, count=2):
    """Coordinates along the directions of largest variance: (points, width) -> (points, count).

    An axis has no sign of its own. Here the largest weight of each is positive, so that another
    linear algebra library draws the same picture and not its mirror image.
    """
    points = _points(points)
    if not 1 <= count <= min(points.shape):
        raise ValueError(f"count must be 1 to {min(points.shape)}, got {count}")
    centred = points - points.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:count]
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(count), largest])
    return centred @ (axes * signs[:, None]).T


def disparity(reference, layout):
    """Procrustes disparity of two (points, width): 0 for equal shapes, at most 1. Row i is point i.

    Both are centred and brought to size 1; then the layout is turned, mirrored and scaled to fit.
    Unrelated layouts do not reach 1: see random_disparities.
    """
    reference, layout = _points(reference), _points(layout)
    if reference.shape != layout.shape:
        raise ValueError(f"layouts must match, got shapes {reference.shape} and {layout.shape}")
    return float(procrustes(reference, layout)[2])


def random_disparities(reference, draws, seed):
    """Disparities (draws,) of the reference from layouts of as many independent normal points."""
    reference = _points(reference)
    layouts = np.random.default_rng(seed).normal(size=(draws, *reference.shape))
    return np.array([disparity(reference, layout) for layout in layouts])


def same_group_neighbours(points, groups):
    """How many points (points, width) have their nearest other point in their own group."""
    points, groups = _points(points), np.asarray(groups)
    if groups.shape != (len(points),):
        raise ValueError(f"groups must be ({len(points)},), got shape {groups.shape}")
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    return int((groups[apart.argmin(axis=1)] == groups).sum())


def _points(points):
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or len(points) < 2:
        raise ValueError(f"points must be (points, width), at least two; got shape {points.shape}")
    return points
