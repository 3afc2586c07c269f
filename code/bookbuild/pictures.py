"""The pictures of a page: how large they are before they load, and their colours in both themes.

A figure is drawn once, in dark ink on no ground. Its copy in the site gets a style sheet that names
the colours of the figure's own palette anew: for light paper, where some of them are too pale for a
thin line, and for dark. A browser asks the sheet's `prefers-color-scheme` of the page that shows
the picture, so the pictures follow the theme button too. What is no colour of a palette, such as
the cells of a heat map and the numbers written on them, stays as it was drawn.
"""

import re
import struct
from collections.abc import Callable

# A picture brings its dark ground along: a browser may ask the system, not the page, for the theme.
PAPER = {"light": "#fbfaf7", "dark": "#14191c"}
# As drawn -> on light paper, on dark paper. The first six are those of `measured.figures`, whose
# orange and sky have a contrast of 2.2 with light paper: a line needs 3, and text 4.5.
FIGURES = {
    "#4a5257": ("#4a5257", "#bcc6c8"),  # ink
    "#0072b2": ("#0063a3", "#3f97d6"),
    "#e69f00": ("#c07c00", "#e69f00"),
    "#009e73": ("#008f6a", "#12b886"),
    "#56b4e9": ("#3a95d0", "#9ad7fa"),
    "#cc79a7": ("#b8588c", "#d98fba"),
    "#000000": ("#000000", "#eef1f0"),
}
# The diagrams drawn for this book: ink, grounds of boxes, their frames.
DIAGRAMS = {
    "#21272b": ("#21272b", "#dce1e0"),
    "#596167": ("#596167", "#9ca8ab"),
    "#ffffff": ("#ffffff", "#20282d"),
    "#d9ebeb": ("#d9ebeb", "#17393d"),
    "#e1e8f4": ("#e1e8f4", "#1d3149"),
    "#f6e6c6": ("#f6e6c6", "#40331a"),
    "#f3e4f0": ("#f3e4f0", "#3b2439"),
    "#e4edd5": ("#e4edd5", "#283620"),
    "#0a636d": ("#0a636d", "#72cbca"),
    "#1d5a96": ("#1d5a96", "#86bbee"),
    "#855100": ("#855100", "#e6b45f"),
    "#7a2d6c": ("#7a2d6c", "#dca8d6"),
    "#4a6a1c": ("#4a6a1c", "#a8d08d"),
}
# Matplotlib writes its colours into style attributes (those of hatches apart), the diagrams into
# attributes of their own: so the white of a number on a heat map is told from the white of a box.
WRITTEN = (
    (FIGURES, re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})"), '[style*="{name}: {drawn}"]'),
    (FIGURES | DIAGRAMS, re.compile(r'\b(fill|stroke)="(#[0-9a-f]{6})"'), '[{name}="{drawn}"]'),
)
# Matplotlib puts a heat map upside down into a mirrored frame: its top is minus its y.
HEAT_MAP = re.compile(
    r'transform="scale\(1 -1\) translate\(0 -[\d.]+\)" x="([\d.]+)" y="-([\d.]+)"'
    r' width="([\d.]+)" height="([\d.]+)"'
)
GLYPHS = re.compile(
    r'<g(?: style="fill: (#[0-9a-f]{6})")? transform="translate\(([\d.]+) ([\d.]+)\) scale'
)
ROOT = re.compile(r"<svg\b[^>]*>")
LENGTH = re.compile(r"([\d.]+)(px|pt|in|cm|mm)?")
PIXELS = {None: 1, "px": 1, "pt": 96 / 72, "in": 96, "cm": 96 / 2.54, "mm": 96 / 25.4}
IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^"]*)"[^>]*>')
SECTION = re.compile(r"<section\b")


def themed(svg: str) -> str:
    """The picture with its palette's colours in both themes; one without such colours as it is."""
    root = ROOT.search(svg)
    if not root or "prefers-color-scheme" in svg:
        return svg
    svg = _keep_on_cells(svg)
    light, dark = [], []
    for palette, written, selector in WRITTEN:
        for name, drawn in sorted(set(written.findall(svg))):
            if drawn not in palette:
                continue
            colours = palette[drawn]
            rule = f"{selector.format(name=name, drawn=drawn)}{{{name}:%s!important}}"
            light += [rule % colours[0]] if colours[0] != drawn else []
            dark += [rule % colours[1]] if colours != (drawn, drawn) else []
    if not dark:
        return svg
    # Glyphs and markers in black have no fill of their own; they take the root's.
    ground = f":root{{background:{PAPER['dark']};fill:{FIGURES['#000000'][1]}}}"
    sheet = f"{''.join(light)}@media (prefers-color-scheme:dark){{{ground}{''.join(dark)}}}"
    return f"{svg[: root.end()]}\n<style>{sheet}</style>{svg[root.end() :]}"


def _keep_on_cells(svg: str) -> str:
    """Take texts that stand on a heat map out of the sheet's reach: cells keep their colours."""
    areas = [tuple(map(float, area)) for area in HEAT_MAP.findall(svg)]

    def keep(found: re.Match[str]) -> str:
        x, y = float(found[2]), float(found[3])
        if not any(at <= x <= at + w and top <= y <= top + h for at, top, w, h in areas):
            return found[0]
        where = found[0].index(" transform=")
        # Without the space that the sheet's selectors ask for.
        return f'<g style="fill:{found[1] or "#000000"}"{found[0][where:]}'

    return GLYPHS.sub(keep, svg) if areas else svg


def size_of(data: bytes) -> tuple[int, int] | None:
    """Width and height in CSS pixels of an SVG or PNG picture; None of another kind."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack(">II", data[16:24])
    root = ROOT.search(data.decode("utf-8", errors="replace"))
    if not root:
        return None
    given = dict(re.findall(r'\s(width|height|viewBox)="([^"]*)"', root[0]))
    lengths = [LENGTH.fullmatch(given.get(name, "")) for name in ("width", "height")]
    if all(lengths):
        width, height = (float(one[1]) * PIXELS[one[2]] for one in lengths)
    elif len(box := given.get("viewBox", "").replace(",", " ").split()) == 4:
        width, height = float(box[2]), float(box[3])
    else:
        return None
    return round(width), round(height)


def framed(html: str, size: Callable[[str], tuple[int, int] | None]) -> str:
    """Give the pictures of a page their size, and load them when the reader comes near.

    Args:
        html: the page.
        size: address of a picture, as the page writes it -> width and height in pixels, if known.
    """
    section = SECTION.search(html)
    top = section.start() if section else len(html)  # shown with the title: not to be put off

    def frame(found: re.Match[str]) -> str:
        tag = found[0]
        added = 'decoding="async"' if found.start() < top else 'loading="lazy" decoding="async"'
        given = re.search(r'\swidth="(\d+)"', tag)
        scaled = given or not re.search(r"\s(?:width|height)=", tag)
        if (known := size(found[1])) and scaled and " height=" not in tag:
            width = int(given[1]) if given else known[0]
            added = f'height="{round(known[1] * width / known[0])}" {added}'
            added = added if given else f'width="{width}" {added}'
        return f"<img {added} {tag[len('<img') :].lstrip()}"

    return IMAGE.sub(frame, html)
