"""The diagrams drawn for the book: well-formed, self-contained, named, legible, in one palette."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "media" / "diagrams"
DIAGRAMS = sorted(FOLDER.glob("*.svg"))
NAMES = {
    "scaled-dot-product-attention",
    "multi-head-attention",
    "encoder-layer",
    "decoder-layer",
    "transformer",
}
SVG = "{http://www.w3.org/2000/svg}"
INK, SOFT, WHITE = "#21272b", "#596167", "#ffffff"
# fill -> stroke: attention, feed-forward, normalisation, mask, anything else, a frame
KINDS = {
    "#d9ebeb": "#0a636d",
    "#f3e4f0": "#7a2d6c",
    "#e1e8f4": "#1d5a96",
    "#f6e6c6": "#855100",
    WHITE: INK,
    "none": SOFT,
}
CARD = "#fbfaf7"  # the paper under figures, in both themes
SMALLEST_AT_390 = 9  # pixels; a phone leaves 358 of 390 for the picture
WIDE_AS = 0.58  # of the font size: a letter of DejaVu Sans, the widest of the fonts named


@pytest.fixture(params=DIAGRAMS, ids=lambda path: path.stem)
def drawing(request):
    return ET.parse(request.param).getroot()


def test_all_five_are_there():
    assert {path.stem for path in DIAGRAMS} >= NAMES


def test_it_names_and_describes_itself(drawing):
    labels = drawing.get("aria-labelledby").split()
    title, description = drawing.find(f"{SVG}title"), drawing.find(f"{SVG}desc")
    assert [title.get("id"), description.get("id")] == labels
    assert len(title.text) > 10
    assert len(description.text) > 100


def test_nothing_is_loaded_or_run(drawing):
    for element in drawing.iter():
        assert element.tag.startswith(SVG), "only SVG's own elements"
        assert element.tag.removeprefix(SVG) not in {"script", "style", "image", "use", "a"}
        for name, text in element.attrib.items():
            assert "href" not in name and not name.startswith("on")
            assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", text))


def test_ids_are_its_own_so_that_two_fit_on_a_page():
    seen = [e.get("id") for path in DIAGRAMS for e in ET.parse(path).iter() if e.get("id")]
    assert len(seen) == len(set(seen))


def test_every_arrow_head_that_is_used_exists(drawing):
    ids = {element.get("id") for element in drawing.iter()}
    used = [e.get("marker-end") for e in drawing.iter() if e.get("marker-end")]
    assert used
    assert {found[5:-1] for found in used} <= ids


def test_colours_come_from_the_palette(drawing):
    for box in drawing.iter(f"{SVG}rect"):
        assert KINDS[box.get("fill")] == box.get("stroke")
    colours = {e.get(name) for e in drawing.iter() for name in ("fill", "stroke")} - {None}
    assert colours <= {*KINDS, *KINDS.values()}


def test_text_stands_out_from_what_is_behind_it(drawing):
    boxes = [rectangle(box) for box in drawing.iter(f"{SVG}rect")]
    fills = [box.get("fill") for box in drawing.iter(f"{SVG}rect")]
    for text in drawing.iter(f"{SVG}text"):
        around = [fill for fill, box in zip(fills, boxes, strict=True) if inside(extent(text), box)]
        ground = next((fill for fill in reversed(around) if fill != "none"), CARD)
        assert contrast(text.get("fill"), ground) >= 4.5, words(text)  # WCAG 2.2, level AA


def test_text_is_large_enough_at_700_and_at_390_pixels(drawing):
    width = float(drawing.get("viewBox").split()[2])
    assert float(drawing.get("width")) == width
    sizes = [float(e.get("font-size")) for e in drawing.iter() if e.get("font-size")]
    assert min(sizes) * min(1, 700 / width) >= 10.5
    texts = [float(text.get("font-size")) for text in drawing.iter(f"{SVG}text")]
    assert min(texts) * min(1, 700 / width) >= 11
    assert min(texts) * 358 / width >= SMALLEST_AT_390


def test_text_stays_inside_the_picture_and_off_other_text(drawing):
    _, _, width, height = map(float, drawing.get("viewBox").split())
    texts = list(drawing.iter(f"{SVG}text"))
    assert len(texts) > 5
    for text in texts:
        assert inside(extent(text), (0, 0, width, height)), words(text)
    for one, other in combinations(texts, 2):
        assert not overlap(extent(one), extent(other)), f"{words(one)} / {words(other)}"


def test_text_crosses_no_edge_of_a_box(drawing):
    rects = list(drawing.iter(f"{SVG}rect"))
    boxes = [rectangle(rect) for rect in rects]
    opaque = [rect.get("fill") != "none" for rect in rects]
    for text in drawing.iter(f"{SVG}text"):
        around = [inside(extent(text), box) for box in boxes]
        covers = [full and within for full, within in zip(opaque, around, strict=True)]
        # The last box around the text hides the edges of those drawn before it.
        first = len(covers) - covers[::-1].index(True) if any(covers) else 0
        for box, within in list(zip(boxes, around, strict=True))[first:]:
            assert within or not overlap(extent(text), box), f"{words(text)} crosses {box}"


def test_no_line_runs_through_text(drawing):
    lines = [piece for path in drawing.findall(f"{SVG}g/{SVG}path") for piece in pieces(path)]
    assert len(lines) > 5
    for text in drawing.iter(f"{SVG}text"):
        for line in lines:
            assert not overlap(extent(text), line), f"{words(text)} under the line {line}"


def test_no_measured_number_is_typed(drawing):
    for text in drawing.iter(f"{SVG}text"):
        assert not re.search(r"\d[\d.,]", words(text)), words(text)


def words(text):
    return "".join(text.itertext()).replace("\u200b", "")


def rectangle(box):
    x, y, width, height = (float(box.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def extent(text):
    """Left, top, right, bottom of one line of text, a little generous."""
    size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
    width = WIDE_AS * size * len(words(text))
    left = {"start": x, "end": x - width, None: x - width / 2}[text.get("text-anchor")]
    return left, y - 0.76 * size, left + width, y + 0.24 * size


def pieces(path):
    """The straight pieces of a path of absolute M, H and V, as thin rectangles."""
    x = y = 0.0
    for command, numbers in re.findall(r"([MHV])([-\d. ]+)", path.get("d")):
        values = [float(number) for number in numbers.split()]
        new_x = values[0] if command in "MH" else x
        new_y = values[-1] if command in "MV" else y
        if command != "M":
            yield min(x, new_x), min(y, new_y), max(x, new_x), max(y, new_y)
        x, y = new_x, new_y


def inside(one, other):
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def contrast(one, other):
    """Ratio of WCAG 2.2, from 1 (none) to 21 (black on white)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_helpers_by_hand():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    path = ET.fromstring('<path d="M10 20H40V5"/>')
    assert list(pieces(path)) == [(10, 20, 40, 20), (40, 5, 40, 20)]
    assert overlap((0, 0, 2, 2), (1, 1, 3, 3)) and not overlap((0, 0, 1, 1), (2, 0, 3, 1))
