"""The attention and the heads explorer, worked as a reader would: by mouse, by finger, by keyboard.

What they compute is compared with the package (attention) and with the maps that the chapter's run
froze, decoded by NumPy (heads). Neither may complain, from a server or from the disk.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from measured.attention import scaled_dot_product_attention, softmax
from measured.masks import causal_mask, combine_masks, refuse_blind_queries

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
ATTENTION, HEADS = "chapters/attention.html", "chapters/encoder-decoder.html"
PAGES = {"attention": ATTENTION, "heads": HEADS}
FROZEN = ROOT / "_freeze/chapters/encoder-decoder/execute-results/html.json"
CLOSE = {"rtol": 0, "atol": 1e-6}  # asked for, and more than float32 strays in a row of weights
AFRESH = """(it) => {
  it.load?.("hand");
  it.reset();
  for (const fold of it.querySelectorAll("details")) fold.open = false;
}"""
BARE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Bare</title>{head}
</head><body class="quarto-dark"><main><h2>Bare</h2>{explorer}</main></body></html>"""


@pytest.fixture(scope="module")
def site(built):
    """The book alone: the other project has no explorers."""
    return built("book")


@pytest.fixture(scope="module")
def soups(site) -> dict[str, BeautifulSoup]:
    return {
        name: BeautifulSoup((site.folder / path).read_bytes(), "lxml")
        for name, path in PAGES.items()
    }


@pytest.fixture(scope="module")
def opened(bases, browser: Browser) -> Iterator[tuple[Callable[..., Page], list[str]]]:
    """Open each page of a kind once, and all that was complained of."""
    contexts, complaints = [], []

    @cache
    def opened(address: str, touch: bool, scripts: bool) -> Page:
        context = browser.new_context(
            has_touch=touch, is_mobile=touch, java_script_enabled=scripts, reduced_motion="reduce"
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto(address, wait_until="load")
        return page

    yield opened, complaints
    for context in contexts:
        context.close()


@pytest.fixture
def visit(bases, opened) -> Iterator[Callable[..., Page]]:
    """A page with its explorer at its start; nothing may be complained of in it."""
    pages, complaints = opened
    complaints.clear()

    def visit(
        path: str, base: str = "file", width: int = 1280, touch: bool = False, scripts: bool = True
    ) -> Page:
        page = pages(path if ":" in path else bases[base] + path, touch, scripts)
        page.set_viewport_size({"width": width, "height": 900})
        page.mouse.move(0, 0)
        if scripts:
            page.locator(".explorer > [role=region]").evaluate(AFRESH)
        return page

    yield visit
    assert complaints == []


def values(page: Page) -> dict:
    """What the explorer of a page holds, in full precision."""
    return page.locator(".explorer > [role=region]").evaluate("(it) => it.values")


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.05)


def part(page: Page, name: str, option: str | int | None = None, key: int | None = None):
    """A control by its name; of several keys' or of a choice's, one. Hidden ones are left out."""
    selector = f'.explorer [data-name="{name}"]'
    if option is not None:
        selector += f'[data-option="{option}"]'
    if key is not None:
        selector = f".attention-key:nth-of-type({key + 2}) [data-name={name}]"
    return page.locator(selector).locator("visible=true")


def swipe(page: Page, x: float, y: float, along: float = 0, down: float = 0) -> None:
    """Draw one finger over the page, in ten steps."""
    finger = page.context.new_cdp_session(page)
    for step in range(11):
        point = {"x": x + along * step / 10, "y": y + down * step / 10}
        kind = "touchMove" if step else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    finger.detach()
    page.wait_for_timeout(100)  # moves are delivered frame by frame


# ---- Attention ----


def by_package(state: dict) -> dict | None:
    """What the package makes of a query with these scores and this mask; None where it refuses.

    Query and key of width d_k are chosen so that their products are the scores.
    """
    mask = np.array(state["mask"])[None, None, None]
    try:
        refuse_blind_queries(mask)
    except ValueError:
        return None
    scores, width = np.array(state["scores"]), round(state["divisor"] ** 2)
    query, key = np.zeros((1, 1, 1, width)), np.zeros((1, 1, len(scores), width))
    query[..., 0], key[..., 0] = 1, scores
    value = np.array(state["values"], dtype=float)[None, None]
    output, weights = scaled_dot_product_attention(query, key, value, mask=mask)
    weights = np.array(weights)[0, 0, 0].astype("float64")
    return {"weights": weights, "output": np.array(output)[0, 0, 0], "entropy": entropy(weights)}


def entropy(weights: np.ndarray) -> float:
    positive = weights[weights > 0]
    return float(-(positive * np.log(positive)).sum())


def agrees(page: Page) -> dict:
    """The values of the page, after comparing them with the package and with what is shown."""
    state = values(page)
    expected = by_package(state)
    assert expected is not None and state["refused"] is None
    for name, number in expected.items():
        np.testing.assert_allclose(state[name], number, **CLOSE, err_msg=name)
    assert state["largestEntropy"] == pytest.approx(np.log(sum(state["mask"])), abs=1e-12)
    shown = page.locator(".attention-weight:visible").evaluate_all("all => all.map(o => +o.value)")
    np.testing.assert_allclose(shown, expected["weights"], rtol=0, atol=5.1e-4)
    exact = page.locator(".attention-weight:visible").evaluate_all(
        "all => all.map(o => +o.dataset.value)"
    )
    np.testing.assert_allclose(exact, expected["weights"], **CLOSE)
    output = json.loads(page.locator(".attention-output").get_attribute("data-value"))
    np.testing.assert_allclose(output, expected["output"], **CLOSE)
    nats = page.locator(".attention-entropy").get_attribute("data-value")
    assert float(nats) == pytest.approx(expected["entropy"], abs=1e-6)
    return state


def test_attention_starts_from_the_numbers_done_by_hand(visit):
    page = visit(ATTENTION)
    state = agrees(page)
    np.testing.assert_allclose(state["scores"], np.log([1, 2, 3]), rtol=0, atol=1e-15)
    np.testing.assert_allclose(state["weights"], np.array(softmax(np.log([1.0, 2, 3]))), **CLOSE)
    np.testing.assert_allclose(state["weights"], [1 / 6, 2 / 6, 3 / 6], **CLOSE)
    np.testing.assert_allclose(state["output"], [4 / 3, 5 / 3], **CLOSE)
    part(page, "example", "without").check()
    state = agrees(page)
    np.testing.assert_allclose(state["weights"], [1 / 3, 2 / 3, 0], **CLOSE)
    np.testing.assert_allclose(state["output"], [2 / 3, 4 / 3], **CLOSE)
    part(page, "attend", key=2).check()  # nothing but the mask is different
    np.testing.assert_allclose(agrees(page)["weights"], [1 / 6, 2 / 6, 3 / 6], **CLOSE)


def test_attention_by_keyboard(visit):
    page = visit(ATTENTION)
    part(page, "example", "hand").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    state = agrees(page)
    assert state["tokens"] == ["fish", "swam", "near", "the", "bank"]
    assert state["divisor"] == 4 and state["query"] == 4
    page.keyboard.press("Tab")  # the query
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert agrees(page)["query"] == 2
    page.keyboard.press("Tab")  # causal
    page.keyboard.press("Space")
    assert agrees(page)["mask"] == [True, True, True, False, False]
    page.keyboard.press("Tab")  # the first key
    page.keyboard.press("Space")
    assert agrees(page)["mask"] == [False, True, True, False, False]
    page.keyboard.press("Tab")  # its score, which may be set all the same
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # the second key's
    before = agrees(page)["scores"]
    page.keyboard.press("ArrowLeft")
    state = agrees(page)
    assert state["scores"] == [before[0], pytest.approx(before[1] - 0.1), *before[2:]]
    page.keyboard.press("Home")
    state = agrees(page)
    assert state["scores"][1] == -20
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "−20.00"
    part(page, "width").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert agrees(page)["divisor"] == 8
    page.keyboard.press("End")
    assert agrees(page)["divisor"] == 32
    part(page, "divide").focus()
    page.keyboard.press("Space")
    assert agrees(page)["divisor"] == 1
    assert part(page, "width").is_disabled()
    part(page, "reset").focus()
    page.keyboard.press("Enter")
    state = agrees(page)
    assert (state["divisor"], state["query"], state["mask"]) == (4, 4, [True] * 5)


def test_attention_by_mouse(visit):
    page = visit(ATTENTION)
    track = page.locator(".attention-track:visible").nth(1)
    track.scroll_into_view_if_needed()
    box = track.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 10)
    page.mouse.down()
    for share in (0.4, 0.6, 0.75):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 10)
        state = agrees(page)
        # The bar ends under the pointer: the score was set so, and the others kept theirs.
        assert state["weights"][1] == pytest.approx(share, abs=1e-3)
        assert [state["scores"][0], state["scores"][2]] == [0, pytest.approx(np.log(3))]
    page.mouse.up()
    page.mouse.move(box["x"], box["y"] + 10)
    assert agrees(page)["weights"][1] == pytest.approx(0.75, abs=1e-3)
    slider = part(page, "score", key=0)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    assert 3.5 < agrees(page)["scores"][0] <= 4.5
    page.locator(".attention-key").nth(2).get_by_text("item 3", exact=True).click()
    assert agrees(page)["mask"] == [True, True, False]
    part(page, "query", 0).click()
    part(page, "causal").click()
    state = agrees(page)
    assert (state["query"], state["mask"]) == (0, [True, False, False])
    # With one key left its bar cannot be drawn: the weight is 1 at any score.
    box = page.locator(".attention-track:visible").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 10)
    assert agrees(page)["weights"] == [1, 0, 0]


def test_attention_by_touch(visit):
    page = visit(ATTENTION, width=390, touch=True)
    part(page, "example", "sentence").tap()
    state = agrees(page)
    assert len(state["tokens"]) == 5
    track = page.locator(".attention-track:visible").nth(4)
    track.scroll_into_view_if_needed()
    width = track.bounding_box()["width"]
    track.tap(position={"x": width / 2, "y": 10})
    assert agrees(page)["weights"][4] == pytest.approx(0.5, abs=1e-3)
    box = track.bounding_box()
    swipe(page, box["x"] + 20, box["y"] + 12, along=box["width"] * 0.7 - 20)
    assert agrees(page)["weights"][4] == pytest.approx(0.7, abs=5e-3)
    before = agrees(page)["scores"]
    swipe(page, box["x"] + 20, box["y"] + 12, down=-120)  # scrolls the page, and does nothing else
    assert agrees(page)["scores"] == before
    page.locator(".attention-track:visible").nth(3).tap(position={"x": width * 0.9, "y": 10})
    assert agrees(page)["scores"][3] == 20  # as far as its range goes
    part(page, "attend", key=4).tap()
    assert agrees(page)["mask"] == [True] * 4 + [False]
    page.get_by_text("Divide by").tap()
    assert agrees(page)["divisor"] == 1
    page.get_by_role("button", name="Reset").tap()
    assert agrees(page)["scores"] == state["scores"]


def test_attention_agrees_with_the_package_in_many_states(visit):
    page = visit(ATTENTION)
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(40):
        example = str(rng.choice(["hand", "sentence"]))
        tokens = 3 if example == "hand" else 5
        state = {
            "example": example,
            "scores": rng.uniform(-10, 10, (tokens, tokens)).tolist(),
            "attend": rng.choice([True, False], tokens, p=[0.6, 0.4]).tolist(),
            "query": int(rng.integers(tokens)),
            "causal": bool(rng.choice([True, False])),
            "divide": bool(rng.choice([True, False])),
            "power": int(rng.integers(11)),
        }
        now = page.locator("attention-explorer").evaluate(
            "(it, state) => { it.state = state; it.update(); return it.values; }", state
        )
        mask = np.array(state["attend"])[None, None, None]
        if state["causal"]:
            row = np.array(causal_mask(tokens))[:, :, [state["query"]]]
            mask = np.array(combine_masks(mask, row))
        assert now["mask"] == mask[0, 0, 0].tolist()
        assert now["divisor"] == (2 ** (state["power"] / 2) if state["divide"] else 1)
        expected = by_package(now)
        if expected is None:
            refusals += 1
            assert (now["weights"], now["output"], now["entropy"]) == (None, None, None)
            continue
        for name, number in expected.items():
            np.testing.assert_allclose(now[name], number, **CLOSE, err_msg=str(state))
    assert 0 < refusals < 20


def test_a_query_without_keys_is_refused_in_the_words_of_the_package(visit):
    page = visit(ATTENTION)
    part(page, "query", 1).check()
    part(page, "causal").check()
    part(page, "attend", key=0).uncheck()
    assert agrees(page)["weights"] == [0, 1, 0]
    part(page, "attend", key=1).uncheck()
    state = values(page)
    hidden = np.ones((1, 1, 3, 3), dtype=bool)
    hidden[0, 0, 1] = False
    with pytest.raises(ValueError) as refusal:
        refuse_blind_queries(hidden)
    assert state["refused"] == str(refusal.value)
    explorer = page.locator("attention-explorer")
    expect(explorer.locator(".explorer-summary")).to_contain_text(f"Refused: {refusal.value}")
    assert page.locator(".attention-output").inner_text() == "none"
    assert page.locator(".attention-point").count() == 0
    assert not re.search("NaN|undefined|Infinity", explorer.evaluate("it => it.outerHTML"))
    link = explorer.locator(".explorer-summary a")
    target = urljoin(page.url, link.get_attribute("href"))
    file, anchor = target.removeprefix("file://").split("#")
    assert BeautifulSoup(Path(file).read_bytes(), "lxml").find(id=anchor)


def test_the_output_and_its_trail_stay_in_the_hull_of_the_values(visit):
    page = visit(ATTENTION)
    slider = part(page, "score", key=1)
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    dots = page.locator(".attention-trail")
    assert dots.count() == 13  # the start, and one a key
    corners = page.locator(".attention-hull").get_attribute("points").split()
    (ax, ay), (bx, by), (cx, cy) = (map(float, corner.split(",")) for corner in corners)
    centres = "all => all.map(dot => [dot.cx, dot.cy].map(a => a.baseVal.value))"
    for x, y in dots.evaluate_all(centres):
        turns = [
            (bx - ax) * (y - ay) - (by - ay) * (x - ax),
            (cx - bx) * (y - by) - (cy - by) * (x - bx),
            (ax - cx) * (y - cy) - (ay - cy) * (x - cx),
        ]
        assert all(turn <= 1e-6 for turn in turns) or all(turn >= -1e-6 for turn in turns)
    part(page, "reset").click()
    assert dots.count() == 1


# ---- Heads ----


@pytest.fixture(scope="module")
def frozen() -> list[tuple[dict, np.ndarray]]:
    """The maps as the chapter's run left them: attributes, and weights (heads, row, character)."""
    markdown = json.loads(FROZEN.read_bytes())["result"]["markdown"]
    maps = []
    for attributes in re.findall(r"^:::: \{\.attention-map (.*)\}$", markdown, re.M):
        data = dict(re.findall(r'data-(\w+)="([^"]*)"', attributes))
        weights = np.frombuffer(base64.b64decode(data.pop("weights")), dtype="<f4")
        maps.append((data, weights.reshape(int(data["heads"]), len(data["written"]), -1)))
    assert len(maps) > 1
    return maps


def shown_by_heads(page: Page, frozen) -> dict:
    """The values of the page, after comparing them with the freeze and with what is listed."""
    state = values(page)
    data, weights = frozen[state["date"]]
    assert (state["text"], state["written"]) == (data["text"], data["written"])
    head = state["head"]
    of_head = weights.astype("float64").mean(axis=0) if head is None else weights[head]
    expected = of_head[state["row"]]
    np.testing.assert_allclose(state["weights"], expected, **CLOSE)
    listed = page.locator(".heads-most output").evaluate_all(
        "all => all.map(o => [+o.dataset.place, +o.dataset.value, +o.value])"
    )
    places = [int(place) for place, _, _ in listed]
    order = np.argsort(-expected, kind="stable")[: len(places)]
    np.testing.assert_allclose(expected[places], expected[order], **CLOSE)
    np.testing.assert_allclose([value for _, value, _ in listed], expected[places], **CLOSE)
    np.testing.assert_allclose([said for _, _, said in listed], expected[places], atol=5.1e-4)
    assert page.locator(".heads-sum").inner_text() == "1.000"
    letter = state["text"][int(expected.argmax())]
    said = page.locator("heads-explorer .explorer-summary").inner_text()
    assert (f"“{letter}”" if letter != " " else "a space") in said
    assert f"character {expected.argmax() + 1}" in said
    return state


def test_every_row_of_every_head_has_the_frozen_weights(visit, frozen):
    page = visit(HEADS)
    rows = page.locator("heads-explorer").evaluate(
        """(it) => it.maps.flatMap((map, date) => [null, ...map.weights.keys()].flatMap((head) =>
             map.written.map((_, row) => {
               it.state = { date, head, row };
               const { weights, sum, most } = it.values;
               return { date, head, row, weights, sum, most };
             })))"""
    )
    assert len(rows) == sum(len(data["written"]) * (len(weights) + 1) for data, weights in frozen)
    for row in rows:
        _, weights = frozen[row["date"]]
        head = row["head"]
        of_head = weights.mean(axis=0) if head is None else weights[head]
        expected = of_head[row["row"]]
        np.testing.assert_allclose(row["weights"], expected, **CLOSE)
        assert row["sum"] == pytest.approx(1, abs=1e-6)
        assert row["most"] == expected.argmax()


def test_heads_by_keyboard(visit, frozen):
    page = visit(HEADS)
    start = shown_by_heads(page, frozen)
    assert (start["date"], start["head"]) == (0, None)
    part(page, "date", 0).focus()
    for date in (1, 2, 3):
        page.keyboard.press("ArrowDown")
        assert shown_by_heads(page, frozen)["date"] == date
    page.keyboard.press("Tab")
    for head in range(len(frozen[0][1])):
        page.keyboard.press("ArrowRight")
        assert shown_by_heads(page, frozen)["head"] == head
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert shown_by_heads(page, frozen)["row"] == start["row"] + 1
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    assert shown_by_heads(page, frozen)["row"] == (start["row"] + 1 - 9) % 10
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    exact = page.locator(".heads-all td").evaluate_all("all => all.map(o => +o.dataset.value)")
    np.testing.assert_allclose(exact, values(page)["weights"], **CLOSE)
    expect(page.locator(".heads-all table")).to_be_visible()


def test_heads_by_mouse_shows_a_row_while_it_is_pointed_at(visit, frozen):
    page = visit(HEADS)
    before = shown_by_heads(page, frozen)["row"]
    picture = page.locator(".heads-map")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    rows = [22 + 20 * (row + 0.5) for row in range(10)]
    for row in (0, 9):
        page.mouse.move(box["x"] + 200, box["y"] + rows[row])
        assert shown_by_heads(page, frozen)["row"] == row
    page.mouse.move(box["x"] + 200, box["y"] + box["height"] + 80)
    assert shown_by_heads(page, frozen)["row"] == before
    page.mouse.click(box["x"] + 200, box["y"] + rows[3])
    page.mouse.move(box["x"] + 200, box["y"] + box["height"] + 80)
    assert shown_by_heads(page, frozen)["row"] == 3
    assert part(page, "row", 3).is_checked()
    part(page, "row", 8).hover()
    assert shown_by_heads(page, frozen)["row"] == 8
    part(page, "head", 2).check()
    part(page, "date", 5).check()
    state = shown_by_heads(page, frozen)
    assert (state["date"], state["head"], state["language"]) == (5, 2, frozen[5][0]["lang"])


def test_heads_by_touch(visit, frozen):
    page = visit(HEADS, width=390, touch=True)
    part(page, "date", 7).tap()
    part(page, "row", 9).tap()
    part(page, "head", 0).tap()
    state = shown_by_heads(page, frozen)
    assert (state["date"], state["head"], state["row"]) == (7, 0, 9)
    page.locator(".heads-map").tap(position={"x": 100, "y": 22 + 24 * 4.5})
    assert shown_by_heads(page, frozen)["row"] == 4


# ---- Both ----


@pytest.mark.parametrize("name", PAGES)
def test_an_explorer_is_a_named_region_that_tells_a_reader_once(visit, name):
    page = visit(PAGES[name], "http")
    explorer = page.locator(f"{name}-explorer")
    heading = explorer.locator("h3").inner_text()
    assert page.get_by_role("region", name=heading).count() == 1
    told = explorer.locator("[role=status]")
    before = told.inner_text()
    for output in explorer.locator("output").all():
        assert output.get_attribute("aria-live") == "off"
    explorer.locator("input[type=radio]:visible").first.focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() == before  # not while things move
    wait_until(lambda: told.inner_text() == explorer.locator(".explorer-summary").inner_text())
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_the_start_is_text_in_reading_order(visit, name):
    page = visit(PAGES[name], scripts=False)
    source = page.locator(f".explorer[data-explorer={name}]")
    assert page.locator(f"{name}-explorer").count() == 0
    text = source.inner_text()
    if name == "attention":
        assert re.search(r"numbers of Section.*log 2.*2/6.*4/3, 5/3.*drawn in Figure", text, re.S)
    else:
        assert text.split("\n")[0] == "sonntag, 2. november 2003 → 2003-11-02"
        assert len(re.findall("→", text)) == 8
    assert source.locator("input, button, h3").count() == 0
    page = visit(PAGES[name])
    hidden = page.locator(f".explorer > :not({name}-explorer):visible")
    assert hidden.count() == 0  # said once only, where the explorer runs


@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("name", PAGES)
def test_an_explorer_fits_its_page_and_fingers(visit, name, width):
    page = visit(PAGES[name], width=width)
    explorer = page.locator(f"{name}-explorer")
    box = explorer.bounding_box()
    frame = page.locator(f".explorer[data-explorer={name}]").bounding_box()
    assert frame["x"] >= 0 and frame["x"] + frame["width"] <= width
    wide = explorer.evaluate(
        """(it) => [...it.querySelectorAll("*")].filter((part) => part.checkVisibility() &&
             !part.closest(".explorer-hidden") && part.getBoundingClientRect().width &&
             part.getBoundingClientRect().right > it.getBoundingClientRect().right + 2
           ).map((part) => part.outerHTML.slice(0, 80))"""
    )
    assert wide == [], box
    for target in explorer.locator("input:visible, button:visible, summary:visible").all():
        holder = target.locator("xpath=ancestor-or-self::label[1] | self::*").first
        size = holder.bounding_box()
        assert min(size["width"], size["height"]) >= 24, holder.evaluate("it => it.outerHTML")


@pytest.mark.parametrize("name", PAGES)
def test_an_explorer_works_on_a_page_of_another_renderer(visit, soups, tmp_path, name):
    head = (ROOT / f"media/includes/explorer-{name}.html").read_text(encoding="utf-8")
    (tmp_path / "media").symlink_to(ROOT / "media")
    (tmp_path / "chapters").mkdir()
    bare = tmp_path / "chapters" / "bare.html"
    bare.write_text(
        BARE.format(head=head, explorer=soups[name].select_one(f"[data-explorer={name}]")),
        encoding="utf-8",
    )
    page = visit(bare.as_uri())
    explorer = page.locator(f"{name}-explorer")
    assert explorer.locator(".explorer-summary").inner_text()
    assert sum(values(page)["weights"]) == pytest.approx(1, abs=1e-6)
    # Quarto's dark theme has a class and no colour scheme; letters must be light on dark there.
    ink, ground = page.locator(".explorer").evaluate(
        "(it) => [getComputedStyle(it).color, getComputedStyle(it).backgroundColor]"
    )
    light, dark = (max(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, ground))
    assert light > 200 and dark < 80


def test_a_chapter_loads_only_its_own_explorer(soups):
    for name, soup in soups.items():
        loaded = {Path(tag["src"]).name for tag in soup.select("script[src*=explorers]")}
        assert loaded == {"base.js", f"{name}.js"}
        assert all(tag.has_attr("defer") for tag in soup.select("script[src*=explorers]"))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_room_is_kept_for_an_explorer_before_its_script_has_run(visit, name, width):
    page = visit(PAGES[name], width=width)
    live, kept = page.locator(f".explorer[data-explorer={name}]").evaluate(
        """(it) => {
          const live = it.offsetHeight;
          for (const part of it.children) part.hidden = !part.hidden;
          it.classList.remove("explorer-live");
          const kept = it.offsetHeight;
          for (const part of it.children) part.hidden = !part.hidden;
          it.classList.add("explorer-live");
          return [live, kept];
        }"""
    )
    assert kept == pytest.approx(live, abs=60)  # three lines of text
