import io
import re
from itertools import pairwise

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from measured.figures import INK, MARKERS, PALETTE, book_style, diverging, draw_layout, sequential


@pytest.fixture(autouse=True)
def style(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with matplotlib.rc_context():
        book_style()
        yield
    plt.close("all")


def svg_of_a_figure():
    figure, axes = plt.subplots()
    axes.plot([0, 1, 2], [3, 1, 2], label="a line")
    axes.imshow(np.eye(3), rasterized=True)
    axes.legend()
    file = io.BytesIO()
    # What Jupyter calls; unlike savefig it does not read savefig.transparent.
    figure.canvas.print_figure(
        file, format="svg", facecolor=figure.get_facecolor(), bbox_inches="tight"
    )
    return file.getvalue().decode()


def luminance(colour):
    """Relative luminance, as WCAG 2 defines it, by its own formula."""
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, two):
    light, dark = sorted([luminance(one), luminance(two)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_same_figure_is_the_same_bytes():
    first, second = svg_of_a_figure(), svg_of_a_figure()
    assert "<path" in first and first == second


def test_no_date_of_today_is_written():
    assert re.findall(r"<dc:date>(.*?)<", svg_of_a_figure()) == ["1970-01-01T00:00:00+00:00"]


def test_a_date_that_is_set_stays(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    book_style()
    assert "<dc:date>1970-01-02" in svg_of_a_figure()


def test_backgrounds_are_transparent_and_letters_are_paths():
    svg = svg_of_a_figure()
    assert "<text" not in svg
    # The two background patches, of figure and axes, are the first two shapes.
    patches = re.findall(r'id="patch_[12]">\s*<path d="[^"]*"\s*([^/]*)/>', svg)
    assert len(patches) == 2
    assert all("fill: none" in patch or "opacity: 0" in patch for patch in patches)


def test_top_and_right_spines_are_gone():
    _, axes = plt.subplots()
    assert [axes.spines[side].get_visible() for side in ("top", "right", "left")] == [0, 0, 1]


@pytest.mark.parametrize("paper", ["#ffffff", "#fbfaf7"])
def test_ink_reads_on_the_paper_that_both_themes_give_figures(paper):
    assert contrast(INK, paper) >= 7  # WCAG 2.2, enhanced contrast


@pytest.mark.parametrize("page", ["#ffffff", "#16181c"])
def test_every_colour_stands_out_from_both_pages(page):
    assert min(contrast(colour, page) for colour in PALETTE) >= 2


def test_neighbours_in_the_palette_differ_in_grey():
    assert min(contrast(one, two) for one, two in pairwise(PALETTE)) >= 1.2


def test_the_sequential_map_grows_lighter_from_end_to_end():
    grey = [luminance(sequential()(x)[:3]) for x in np.linspace(0, 1, 17)]
    assert (np.diff(grey) > 0).all()


def test_the_diverging_map_is_lightest_in_the_middle():
    grey = [luminance(diverging()(x)[:3]) for x in np.linspace(0, 1, 17)]
    assert (np.diff(grey[:9]) > 0).all() and (np.diff(grey[8:]) < 0).all()


def test_a_layout_shows_every_word_and_one_marker_a_group():
    _, axes = plt.subplots()
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]])
    draw_layout(axes, points, ["red", "dog", "wolf"], ["colours", "animals", "animals"])
    assert sorted(text.get_text() for text in axes.texts) == ["dog", "red", "wolf"]
    drawn = {line.get_label(): line for line in axes.lines}
    assert list(drawn) == ["animals", "colours"]
    assert drawn["animals"].get_xydata().tolist() == [[1, 1], [2, 0.5]]
    assert [line.get_marker() for line in drawn.values()] == list(MARKERS[:2])
