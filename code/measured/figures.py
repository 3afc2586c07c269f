"""How the book's figures look: one palette, transparent backgrounds, bytes that do not change.

The palette is Okabe and Ito's (2008), ordered so that neighbours also differ in lightness; lines
differ by dash as well. Ink is dark: in both themes the pages show figures on light paper.
"""

import os

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler

INK = "#4a5257"
BLUE, ORANGE, GREEN, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#CC79A7"
PALETTE = (BLUE, ORANGE, GREEN, SKY, PURPLE)
DASHES = ("-", "--", "-.", ":", "-")
WIDE = (6.4, 3.2)  # inches; shown 360 pixels wide, letters of 14 points are still 11 pixels
MARKERS = ("o", "s", "^", "D", "v")


def book_style():
    """Set Matplotlib up for the book. The same figure is the same SVG, byte for byte.

    SOURCE_DATE_EPOCH is given a value where it has none: Matplotlib writes it in place of the date.
    Sizes are left alone, since Jupyter sets its own after the first cell: pass figsize=WIDE.
    """
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "measured",
            "svg.fonttype": "path",
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "savefig.transparent": True,
            "figure.constrained_layout.use": True,
            "font.family": "DejaVu Sans",
            "font.size": 14,
            "axes.titlesize": 14,
            "axes.labelsize": 14,
            "xtick.labelsize": 13,
            "ytick.labelsize": 13,
            "legend.fontsize": 13,
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=PALETTE, linestyle=DASHES),
            "lines.linewidth": 1.8,
            "legend.frameon": False,
            "image.cmap": "cividis",
        }
    )


def sequential():
    """The colour map for values of one sign: dark is low, light is high, also in grey."""
    return plt.get_cmap("cividis")


def diverging():
    """The colour map for values around zero: blue-green below, brown above."""
    return plt.get_cmap("BrBG_r")


def draw_layout(axes, points, words, groups):
    """Draw points (words, 2), one colour and marker a group, each with its word beside it.

    Groups take their colours in alphabetical order, so one group looks the same in every figure.
    """
    for colour, marker, group in zip(PALETTE, MARKERS, sorted(set(groups)), strict=False):
        inside = [i for i, other in enumerate(groups) if other == group]
        axes.plot(*points[inside].T, marker, color=colour, linestyle="none", label=group)
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    right_edge = points[:, 0].min() + 0.85 * np.ptp(points[:, 0])
    for word, point, neighbour in zip(words, points, points[apart.argmin(axis=1)], strict=True):
        # Away from the nearest point, and inwards at the right edge, or labels run into each other.
        below, inwards = neighbour[1] > point[1], point[0] > right_edge
        axes.annotate(
            word,
            point,
            xytext=(-5 if inwards else 5, -3 if below else 3),
            textcoords="offset points",
            ha="right" if inwards else "left",
            va="top" if below else "bottom",
            fontsize=11,
        )
    axes.margins(0.12)
    axes.set(xticks=[], yticks=[])
