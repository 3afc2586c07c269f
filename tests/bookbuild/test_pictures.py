"""Pictures in both themes: their contrast measured, what must keep its colours, and their size."""

import re
from pathlib import Path

import pytest

from bookbuild.pictures import DIAGRAMS, FIGURES, PAPER, framed, size_of, themed

ROOT = Path(__file__).parents[2]
DRAWN = [*sorted(ROOT.glob("_freeze/**/*.svg")), *sorted(ROOT.glob("media/diagrams/*.svg"))]
INK = ("#4a5257", "#21272b", "#596167")  # written with: 4.5 by WCAG 2.2, 1.4.3
GROUNDS = ("#ffffff", "#d9ebeb", "#e1e8f4", "#f6e6c6", "#f3e4f0", "#e4edd5")
HEAT_MAP = (
    '<svg width="72pt" height="36pt"><image transform="scale(1 -1) translate(0 -20)"'
    ' x="10" y="-5" width="30" height="20"/>{}</svg>'
)


def contrast(one: str, other: str) -> float:
    """The ratio that WCAG 2.2 defines."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_what_wcag_prints():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize(("theme", "at"), [("light", 0), ("dark", 1)])
def test_lines_stand_out_from_the_paper_and_texts_more(theme, at):
    for drawn, colours in {**FIGURES, **DIAGRAMS}.items():
        if drawn not in GROUNDS:
            least = 4.5 if drawn in INK else 3
            assert contrast(colours[at], PAPER[theme]) >= least, (drawn, theme)


@pytest.mark.parametrize("at", [0, 1])
def test_texts_in_boxes_can_be_read(at):
    for ground in GROUNDS:
        assert contrast(DIAGRAMS["#21272b"][at], DIAGRAMS[ground][at]) >= 4.5, ground


def test_every_colour_of_every_picture_is_one_of_the_palettes():
    assert DRAWN
    for path in DRAWN:
        text = path.read_text(encoding="utf-8")
        used = set(re.findall(r"\b(?:fill|stroke): (#[0-9a-f]{6})", text)) - {"#ffffff"}
        assert used <= set(FIGURES), path.name
        used = set(re.findall(r'\b(?:fill|stroke)="(#[0-9a-f]{6})"', text))
        assert used <= {*FIGURES, *DIAGRAMS}, path.name


def test_a_line_has_another_colour_in_each_theme():
    svg = themed('<svg><path style="fill: none; stroke: #e69f00"/></svg>')
    light, dark = svg.split("@media (prefers-color-scheme:dark)")
    assert '[style*="stroke: #e69f00"]{stroke:#c07c00!important}' in light
    assert '[style*="stroke: #e69f00"]{stroke:#e69f00!important}' in dark
    assert svg.endswith('<path style="fill: none; stroke: #e69f00"/></svg>')


@pytest.mark.parametrize("written", ["", ' style="fill: #4a5257"'])
def test_a_number_on_a_heat_map_keeps_its_colour_and_one_beside_it_does_not(written):
    on, beside = (
        f'<g{written} transform="translate({x} 12) scale(0.1 -0.1)">' for x in (20.5, 50.5)
    )
    svg = themed(HEAT_MAP.format(f'{on}</g>{beside}</g><path style="fill: #0072b2"/>'))
    assert f'<g style="fill:{"#4a5257" if written else "#000000"}" transform="translate(20.5' in svg
    assert beside in svg


def test_a_picture_without_the_palette_or_with_themes_of_its_own_stays_as_it_is():
    for svg in (
        '<svg><path fill="#123456"/></svg>',
        '<svg><style>@media (prefers-color-scheme: dark){}</style><path fill="#21272b"/></svg>',
        "no picture",
    ):
        assert themed(svg) == svg


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'<svg width="72pt" height="36pt" viewBox="0 0 72 36">', (96, 48)),
        (b'<svg viewBox="0 0 30 20.4">', (30, 20)),
        (b'<svg width="100%" height="100%" viewBox="0,0,7,5">', (7, 5)),
        (b'<svg width="480" height="576">', (480, 576)),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x05", (7, 5)),
        (b"<svg>", None),
        (b"GIF89a", None),
    ],
)
def test_the_size_of_a_picture(data, size):
    assert size_of(data) == size


def test_pictures_get_their_size_and_wait_below_the_first_section():
    sizes = {"a.svg": (7, 5)}
    html = framed('<img src="a.svg" /><section><img src="a.svg" /></section>', sizes.get)
    assert html == (
        '<img width="7" height="5" decoding="async" src="a.svg" /><section>'
        '<img width="7" height="5" loading="lazy" decoding="async" src="a.svg" /></section>'
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('width="14"', 'height="10" decoding'),
        ('width="50%"', "<img decoding"),
        ('height="9"', "<img decoding"),
    ],
)
def test_a_size_that_the_author_gave_stays(given, expected):
    html = framed(f'<img src="a.svg" {given}>', {"a.svg": (7, 5)}.get)
    assert expected in html and given in html
