"""The explorers of positions and of embedding against position, worked as a reader would.

Every number a page shows is compared with measured.positions, measured.layouts and SciPy.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Locator, Page
from scipy.spatial import procrustes

from measured.embeddings import embedding_matrix, load_glove, word_index
from measured.layouts import disparity, principal_components, same_group_neighbours
from measured.positions import distances, first_rise, gram, positional_encoding

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "chapters" / "positional-encoding.qmd"
WORDS = ROOT / "media" / "site" / "explorers" / "words.js"
GLOVE = ROOT / "media" / "data" / "glove.6B.100d.subset.txt"
PAGE = "chapters/positional-encoding.html"
POSITIONS, WEIGHT = "positions-explorer", "weight-explorer"
# The issue asks for 1e-6. Sines of the same angles differ by an ulp; sums of 512 of them, by this.
CLOSE = 1e-9


@pytest.fixture(scope="module")
def site(built):
    """The book alone: the other project has no explorers."""
    return built("book")


@pytest.fixture(scope="module")
def opened(bases, browser: Browser) -> Iterator[tuple[Callable[..., Page], list[str]]]:
    """Open the chapter once in each way, and note all that it complains of."""
    contexts, complaints = [], []

    @cache
    def opened(base: str, phone: bool, scripts: bool) -> Page:
        size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 900}
        context = browser.new_context(
            viewport=size,
            has_touch=phone,
            is_mobile=phone,
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto(bases[base] + PAGE, wait_until="load")
        return page

    yield opened, complaints
    for context in contexts:
        context.close()


@pytest.fixture
def visit(opened) -> Iterator[Callable[..., Page]]:
    """The chapter with its explorers as they start; nothing may go wrong in it."""
    pages, complaints = opened
    complaints.clear()

    def visit(base: str = "file", phone: bool = False, scripts: bool = True) -> Page:
        page = pages(base, phone, scripts)
        if scripts:
            for tag in (POSITIONS, WEIGHT):
                page.locator(tag).evaluate("it => it.reset()")
        return page

    yield visit
    assert complaints == []


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(25)
    pytest.fail("it did not happen within five seconds")


def values(page: Page, tag: str) -> dict:
    return page.evaluate(f"document.querySelector('{tag}').values")


def part(page: Page, tag: str, name: str) -> Locator:
    return page.locator(f"{tag} [data-name={name}]")


def summary(page: Page, tag: str) -> str:
    return page.locator(f"{tag} .explorer-summary").inner_text()


def shown(page: Page, tag: str, name: str) -> float:
    return float(part(page, tag, name).get_attribute("data-value"))


def choose(page: Page, tag: str, name: str, option: str) -> Locator:
    return part(page, tag, name).and_(page.locator(f"[data-option='{option}']"))


def typed(page: Page, **numbers: int) -> None:
    for name, number in numbers.items():
        part(page, POSITIONS, f"{name}-exact").fill(str(number))


def expect_positions(seen: dict) -> None:
    """Each number of the explorer is the package's, for the state it is in."""
    depth, at, apart = seen["depth"], seen["position"], seen["separation"]
    table = positional_encoding(at + 100, depth, float(seen["base"]), seen["layout"])[at:]
    products, gaps = gram(table)[0], distances(table)[0]
    close = {"rtol": 0, "atol": CLOSE}
    np.testing.assert_allclose(seen["row"], table[0], **close)
    np.testing.assert_allclose(seen["other"], table[apart], **close)
    np.testing.assert_allclose(seen["products"], table[0] * table[apart], **close)
    np.testing.assert_allclose(seen["dots"], products, **close)
    np.testing.assert_allclose(seen["distances"], gaps, **close)
    assert seen["norm"] == pytest.approx(np.linalg.norm(table[0]), abs=CLOSE)
    assert seen["expectedNorm"] == pytest.approx(np.sqrt(depth / 2), abs=CLOSE)
    assert seen["dot"] == pytest.approx(products[apart], abs=CLOSE)
    assert seen["distance"] == pytest.approx(gaps[apart], abs=CLOSE)
    assert seen["firstRise"] == first_rise(products)
    assert seen["firstFall"] == first_rise(-gaps)
    early = positional_encoding(200, depth, float(seen["base"]))
    moved = np.ptp([early[start] @ early[start + apart] for start in range(100)])
    assert seen["moved"] == pytest.approx(moved, abs=CLOSE)


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_both_explorers_stand_in_the_page_and_nothing_is_refused(visit, scheme):
    page = visit(scheme)  # the fixture looks at what the console says
    for tag in (POSITIONS, WEIGHT):
        explorer = page.locator(tag)
        assert explorer.get_attribute("role") == "region"
        assert len(explorer.get_attribute("aria-label")) > 10
        assert page.locator(f".explorer:has({tag}) > :not({tag}):visible").count() == 0
        pictures = explorer.locator("svg[role=img]")
        assert pictures.count() == 3
        for picture in pictures.all():
            assert len(picture.get_attribute("aria-label")) > 30
            assert picture.locator("path, line").count() > 2


def test_without_scripts_the_text_and_its_figures_are_there(visit):
    page = visit(scripts=False)
    for name in ("positions", "weight"):
        static = page.locator(f".explorer[data-explorer={name}]")
        assert static.locator("p").is_visible()
        figures = static.locator("a[href*='#fig-pe-']")
        assert figures.count() >= 2
        for link in figures.all():
            target = link.get_attribute("href").rpartition("#")[2]
            assert page.locator(f"#{target} img").is_visible()
        assert static.locator("input, button, svg").count() == 0


# Odd and even, narrow and wide, far positions, fast and slow clocks.
STATES = [
    (100, 10_000, 10, 30), (2, 10_000, 0, 44), (3, 10_000, 7, 99), (101, 10_000, 999, 1),
    (64, 10, 13, 5), (512, 1_000_000, 503, 97), (511, 100, 0, 0), (37, 500_000, 83, 41),
]  # fmt: skip


def test_every_number_of_a_state_is_the_packages_in_both_layouts(visit):
    page = visit()
    seen = []
    for layout in ("interleaved", "halves"):
        choose(page, POSITIONS, "layout", layout).check()
        for depth, base, position, separation in STATES:
            typed(page, depth=depth, base=base, position=position, separation=separation)
            state = values(page, POSITIONS)
            told = (state["depth"], state["base"], state["position"], state["separation"])
            assert told == (depth, base, position, separation)
            assert state["layout"] == layout
            expect_positions(state)
            for name in ("norm", "expectedNorm", "dot", "distance", "moved"):
                assert shown(page, POSITIONS, name) == state[name]
            seen.append(state)
    half = len(STATES)
    for straight, halves in zip(seen[:half], seen[half:], strict=True):
        assert halves["dot"] == pytest.approx(straight["dot"], abs=CLOSE)
        assert halves["distance"] == pytest.approx(straight["distance"], abs=CLOSE)
        # Two columns are a sine and a cosine either way, three are not.
        assert (halves["row"] != straight["row"]) == (straight["depth"] > 2)


def test_the_first_rise_is_the_tables_at_each_width(visit):
    page = visit()
    soup = BeautifulSoup(page.content(), "lxml")
    rows = [row.select("td") for row in soup.select("#tbl-pe-first-rise tbody tr")]
    told = {int(width.get_text()): int(rise.get_text()) for width, rise in rows}
    assert told[100] == 12
    typed(page, position=0)
    for depth in set(told) - {1024}:
        typed(page, depth=depth)
        assert shown(page, POSITIONS, "firstRise") == told[depth]
        label = page.locator(f"{POSITIONS} .explorer-pick").first.locator("text.explorer-note")
        assert label.text_content() == f"first rise, k = {told[depth]}"


def test_moving_both_positions_changes_the_rows_and_nothing_else(visit):
    page = visit()
    before = values(page, POSITIONS)
    part(page, POSITIONS, "position").focus()
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    after = values(page, POSITIONS)
    assert after["position"] == before["position"] + 7
    assert after["row"] != before["row"]
    assert after["dot"] == pytest.approx(before["dot"], abs=1e-12)
    np.testing.assert_allclose(after["distances"], before["distances"], rtol=0, atol=1e-12)
    assert "changes nothing but rounding" in summary(page, POSITIONS)
    typed(page, depth=3)
    lone = values(page, POSITIONS)
    assert lone["moved"] > 1e-5
    assert "a sine without its cosine" in summary(page, POSITIONS)


def press_curve(page: Page, which: int, separation: int) -> tuple[float, float]:
    """Where a separation is on one of the two curves; the picture is scrolled into sight."""
    picture = page.locator(f"{POSITIONS} .explorer-pick").nth(which)
    picture.scroll_into_view_if_needed()
    box, grid = picture.bounding_box(), picture.locator("line.explorer-grid")
    ends = [float(grid.nth(i).get_attribute("x1")) for i in (0, 5)]
    across = ends[0] + (ends[1] - ends[0]) * separation / 99
    return box["x"] + across, box["y"] + box["height"] / 2


def swipe(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A finger drawn over the page, as the browser itself sees one."""
    hand = page.context.new_cdp_session(page)
    path = np.linspace(start, end, 5)
    for kind, spot in (("Start", path[:1]), *(("Move", [at]) for at in path[1:]), ("End", [])):
        points = [{"x": float(x), "y": float(y)} for x, y in spot]
        hand.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
    hand.detach()


def test_the_mouse_works_the_positions(visit):
    page = visit()
    page.mouse.click(*press_curve(page, 0, 23))
    assert values(page, POSITIONS)["separation"] == 23
    page.mouse.move(*press_curve(page, 1, 40))
    page.mouse.down()
    page.mouse.move(*press_curve(page, 1, 77), steps=3)
    page.mouse.up()
    page.mouse.move(*press_curve(page, 1, 5))  # no button is down any more
    assert values(page, POSITIONS)["separation"] == 77
    page.mouse.move(*press_curve(page, 0, 50))
    page.mouse.down(button="right")
    page.mouse.up(button="right")
    assert values(page, POSITIONS)["separation"] == 77
    page.locator(f"{POSITIONS} label", has_text="sines first").click()
    slider = part(page, POSITIONS, "depth")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    state = values(page, POSITIONS)
    assert state["layout"] == "halves"
    assert 300 < state["depth"] < 450
    expect_positions(state)
    part(page, POSITIONS, "reset").click()
    assert values(page, POSITIONS)["depth"] == 100


def test_a_finger_works_both_explorers(visit):
    page = visit(phone=True)
    targets = "input[type=range], input[type=number], .explorer-options label, button"
    for tag in (POSITIONS, WEIGHT):
        for target in page.locator(tag).locator(targets).all():
            assert target.bounding_box()["height"] >= 24
    page.touchscreen.tap(*press_curve(page, 0, 61))
    assert abs(values(page, POSITIONS)["separation"] - 61) <= 1  # a third of a place is a pixel
    page.locator(f"{POSITIONS} label", has_text="sines first").tap()
    assert values(page, POSITIONS)["layout"] == "halves"
    expect_positions(values(page, POSITIONS))
    page.locator(f"{WEIGHT} label", has_text="10 : 1").tap()
    assert values(page, WEIGHT)["ratio"] == 10
    slider = part(page, WEIGHT, "ratio")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.25 * box["width"], box["y"] + box["height"] / 2)
    wait_until(page, lambda: values(page, WEIGHT)["ratio"] < 1)
    expect_weight(values(page, WEIGHT))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # Last, since the page glides on after a finger has let it go.
    before = values(page, POSITIONS)["separation"]
    across, down = press_curve(page, 0, 30)
    swipe(page, (across, down), (across + 3, down - 60))  # to scroll, not to choose
    assert values(page, POSITIONS)["separation"] == before
    page.wait_for_timeout(300)  # until the page has come to rest
    swipe(page, press_curve(page, 0, 30), press_curve(page, 0, 80))
    wait_until(page, lambda: abs(values(page, POSITIONS)["separation"] - 80) <= 1)


def test_the_keyboard_works_the_positions_and_refuses_what_no_encoding_has(visit):
    page = visit()
    slider = part(page, POSITIONS, "separation")
    slider.focus()
    page.keyboard.press("End")
    assert values(page, POSITIONS)["separation"] == 99
    page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "98"
    choose(page, POSITIONS, "layout", "interleaved").focus()
    page.keyboard.press("ArrowDown")
    assert values(page, POSITIONS)["layout"] == "halves"
    field = part(page, POSITIONS, "depth-exact")
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("1")  # half of 128, and no width by itself
    assert values(page, POSITIONS)["depth"] == 100
    page.keyboard.type("28")
    assert values(page, POSITIONS)["depth"] == 128
    expect_positions(values(page, POSITIONS))
    for text, becomes in (("9999", 512), ("0", 2), ("-7", 2), ("", 2), ("12.6", 13)):
        field.fill(text)
        field.press("Tab")
        assert values(page, POSITIONS)["depth"] == becomes
        assert field.input_value() == str(becomes)


# ---- Embedding against position ----


def sentences_and_groups() -> tuple[list[str], dict[str, str]]:
    """As the chapter's cell writes them."""
    cell = re.search(r"#\| label: sentences\n(.*?)```", CHAPTER.read_text(encoding="utf-8"), re.S)
    names: dict = {"word_index": word_index, "check": lambda _, value: value}
    exec(cell[1], names)  # the chapter's own code, without its ledger
    return names["sentences"], names["group"]


SENTENCES, GROUP = sentences_and_groups()
ORDERS = [sentence.split() for sentence in SENTENCES]
INDEX = word_index(SENTENCES)
MATRIX = embedding_matrix(INDEX, load_glove(GLOVE, words=INDEX)).astype("float64")
MEANINGS = [np.array([MATRIX[INDEX[word]] for word in order]) for order in ORDERS]
WAVES = positional_encoding(11, 100)


def test_the_pages_words_are_the_packages_digit_for_digit(visit):
    lines = WORDS.read_text(encoding="utf-8").split("`")[1].strip().splitlines()
    shipped = GLOVE.read_text(encoding="utf-8").splitlines()
    assert lines == [line for line in shipped if line.partition(" ")[0] in INDEX]
    told = visit().evaluate(
        "({...explorerWords, vectors: Object.fromEntries(Object.entries(explorerWords.vectors)"
        ".map(([word, vector]) => [word, [...vector]]))})"
    )
    assert told["sentences"] == SENTENCES
    assert told["groups"] == GROUP
    assert told["vectors"] == {word: MATRIX[INDEX[word]].tolist() for word in INDEX}


def expect_weight(seen: dict) -> None:
    """Each number of the explorer is the package's, for the state it is in."""
    which, (loud, wave) = seen["sentence"], seen["weights"]
    assert loud / wave == pytest.approx(seen["ratio"], rel=1e-12)
    assert min(loud, wave) == 1
    rows = loud * MEANINGS[which] + wave * WAVES
    alone, layout = principal_components(MEANINGS[which]), principal_components(rows)
    close = {"rtol": 0, "atol": CLOSE}
    np.testing.assert_allclose(seen["alone"], alone, **close)
    np.testing.assert_allclose(seen["layout"], layout, **close)  # signs too: they are fixed
    still, fitted, left = procrustes(alone, layout)
    np.testing.assert_allclose(seen["still"], still, **close)
    np.testing.assert_allclose(seen["fitted"], fitted, **close)
    assert seen["disparity"] == pytest.approx(left, abs=CLOSE)
    assert seen["disparity"] == pytest.approx(disparity(alone, layout), abs=CLOSE)
    spread = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(seen["shares"], spread / spread.sum(), **close)
    order = ORDERS[which]
    assert seen["order"] == order
    assert seen["neighbours"] == same_group_neighbours(layout, [GROUP[word] for word in order])
    lengths = np.linalg.norm(MEANINGS[0], axis=1).mean() / np.sqrt(50)
    assert seen["lengthRatio"] == pytest.approx(seen["ratio"] * lengths, abs=CLOSE)
    red, wolf = order.index("red"), order.index("wolf")
    assert seen["places"] == abs(red - wolf)
    assert seen["pairMixed"] == pytest.approx(np.linalg.norm(rows[red] - rows[wolf]), abs=CLOSE)
    gap = np.linalg.norm(MEANINGS[which][red] - MEANINGS[which][wolf])
    assert seen["pairAlone"] == pytest.approx(loud * gap, abs=CLOSE)


def test_the_presets_give_the_chapters_disparities_in_both_sentences(visit, site):
    page = visit()
    labels = {"1 : 10": 0.990159, "1 : 1": 0.42885, "10 : 1": 0.000378}
    for label, expected in labels.items():
        page.locator(f"{WEIGHT} label", has_text=re.compile(f"^{label}$")).click()
        seen = values(page, WEIGHT)
        assert seen["sentence"] == 1
        assert seen["disparity"] == pytest.approx(expected, abs=5e-6)  # five digits are printed
        assert shown(page, WEIGHT, "disparity") == seen["disparity"]
        expect_weight(seen)
    shrunk = []
    for option in ("Keras", "variance"):
        page.locator(f"{WEIGHT} label", has_text=option).click()
        shrunk.append(round(values(page, WEIGHT)["disparity"], 3))
        expect_weight(values(page, WEIGHT))
    chapter = BeautifulSoup((site.folder / PAGE).read_bytes(), "lxml")
    assert chapter.select_one("[data-claim=pe-disparity-shrunk]").get_text() == str(shrunk)
    page.locator(f"{WEIGHT} label", has_text="group by group").click()
    page.locator(f"{WEIGHT} label", has_text=re.compile("^1 : 1$")).click()
    seen = values(page, WEIGHT)
    assert (seen["sentence"], seen["places"]) == (0, 3)
    assert seen["pairMixed"] == pytest.approx(7.374, abs=5e-4)
    assert seen["pairAlone"] == pytest.approx(5.599, abs=5e-4)
    expect_weight(seen)


def test_the_mouse_and_the_keyboard_move_the_weights(visit):
    page = visit()
    slider = part(page, WEIGHT, "ratio")
    slider.focus()
    page.keyboard.press("Home")
    assert values(page, WEIGHT)["weights"] == [1, 10]
    for keys in (["PageUp"] * 3, ["ArrowRight"] * 17, ["PageUp"] * 5, ["End", "ArrowLeft"]):
        for key in keys:
            page.keyboard.press(key)
        expect_weight(values(page, WEIGHT))
    assert slider.get_attribute("aria-valuetext") == "9.89 : 1"
    choose(page, WEIGHT, "sentence", "1").focus()
    page.keyboard.press("ArrowUp")
    assert values(page, WEIGHT)["sentence"] == 0
    expect_weight(values(page, WEIGHT))
    box = slider.bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.9 * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], height, steps=5)
    page.mouse.up()
    seen = values(page, WEIGHT)
    assert 1.2 < seen["ratio"] < 2
    expect_weight(seen)
    curve = page.locator(f"{WEIGHT} .explorer-pick")
    curve.scroll_into_view_if_needed()
    box = curve.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)
    seen = values(page, WEIGHT)
    assert 0.2 < seen["ratio"] < 0.4
    expect_weight(seen)
    words = page.locator(f"{WEIGHT} figure").first.locator("text.explorer-word").all_text_contents()
    assert words == [f"{word}{place}" for place, word in enumerate(ORDERS[0])]
    part(page, WEIGHT, "reset").click()
    assert values(page, WEIGHT)["ratio"] == 1


def test_the_curve_is_the_disparity_at_every_ratio(visit):
    page = visit()
    wait_until(page, lambda: all(len(one) == 161 for one in values(page, WEIGHT)["curves"]))
    seen = values(page, WEIGHT)
    assert seen["ratios"][0] == pytest.approx(0.1) and seen["ratios"][-1] == pytest.approx(10)
    for meaning, curve in zip(MEANINGS, seen["curves"], strict=True):
        alone = principal_components(meaning)
        expected = [
            disparity(alone, principal_components(ratio * meaning + WAVES))
            for ratio in seen["ratios"]
        ]
        np.testing.assert_allclose(curve, expected, rtol=0, atol=CLOSE)
        # What the chapter says of it: nearly all of the change is within a factor of two of 1:1.
        inside = [np.interp(ratio, seen["ratios"], curve) for ratio in (0.5, 2)]
        assert inside[0] - inside[1] > 0.85 * (curve[0] - curve[-1])
    assert page.locator(f"{WEIGHT} .explorer-curve").count() == 2


def test_the_second_and_third_axis_change_places_where_the_disparity_leaps():
    """The chapter's reading of the steep part, for the second sentence."""

    def axes(ratio: float) -> np.ndarray:
        rows = ratio * MEANINGS[1] + WAVES
        return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2]

    before, after = axes(0.85), axes(1.0)
    kept = np.abs(before[:3] @ after[:3].T)
    assert kept[1].argmax() == 2 and kept[2].argmax() == 1 and kept[0].argmax() == 0
    assert min(kept[1, 2], kept[2, 1]) > 0.85
