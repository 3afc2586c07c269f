"""What a first visit to a page costs: bytes, requests, and what is put off until it is wanted."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, Request

from conftest import FONTS

pytestmark = pytest.mark.browser

KILOBYTES = 250  # compressed, without fonts and pictures
REQUESTS = 20
OWN_STYLES = 16  # kilobytes, compressed: what stands between a reader and the first line of text
PICTURES = ("image", "font")


SHIFT = 0.02  # of the layout, as Lighthouse counts it
LISTEN = """
window.shifts = [];
new PerformanceObserver((seen) => shifts.push(...seen.getEntries()))
  .observe({ type: "layout-shift", buffered: true });
"""
SHIFTS = """shifts.map((one) => [
  one.value,
  one.sources.map(({ node }) => node && (node.id || node.className || node.nodeName)).join(", "),
])"""


@dataclass(frozen=True)
class Load:
    """What came of opening a page, before its reader did anything.

    asked: what it asked for, as (kind, bytes, address).
    shifts: how far what was drawn moved, and what it was.
    """

    asked: list[tuple[str, int, str]]
    shifts: list[tuple[float, str]]

    def kilobytes(self, *kinds: str) -> float:
        return sum(size for kind, size, _ in self.asked if not kinds or kind in kinds) / 1000


@pytest.fixture(scope="module", params=[390, 1440])
def visit(request, browser: Browser, compressed) -> Callable[[str], tuple[Page, list[Request]]]:
    """Open a page for the first time: the page, and what it asks for."""

    def visit(path: str) -> tuple[Page, list[Request]]:
        context = browser.new_context(viewport={"width": request.param, "height": 900})
        page = context.new_page()
        page.add_init_script(LISTEN)
        requests: list[Request] = []
        page.on("request", lambda one: requests.append(one))
        page.goto(compressed + path, wait_until="load")
        return page, requests

    return visit


def load(page: Page, requests: list[Request]) -> Load:
    """What came of a visit in the end."""
    page.evaluate(FONTS)
    page.wait_for_load_state("networkidle")
    asked = [one for one in requests if not one.url.startswith("data:")]
    found = Load(
        [(one.resource_type, one.sizes()["responseBodySize"], one.url) for one in asked],
        page.evaluate(SHIFTS),
    )
    page.context.close()
    return found


@pytest.fixture(scope="module")
def loads(built, visit) -> dict[str, Load]:
    opened = {path: visit(path) for path in built("book").pages}
    return {path: load(*visited) for path, visited in opened.items()}  # all have had time


def test_a_page_weighs_little_without_fonts_and_pictures(loads):
    kinds = {kind for load in loads.values() for kind, _, _ in load.asked} - set(PICTURES)
    weights = {page: load.kilobytes(*kinds) for page, load in loads.items()}
    assert min(weights.values()) > 5, "the server counted nothing"
    assert {page: weight for page, weight in weights.items() if weight > KILOBYTES} == {}


def test_a_page_asks_for_few_files(loads):
    counts = {page: [url for _, _, url in load.asked] for page, load in loads.items()}
    assert {page: urls for page, urls in counts.items() if len(urls) > REQUESTS} == {}


def test_a_page_asks_nothing_of_others(loads, compressed):
    urls = [url for load in loads.values() for _, _, url in load.asked]
    assert [url for url in urls if not url.startswith(compressed)] == []


def test_little_stands_before_the_first_line_of_text(loads):
    styles = {
        page: sum(size for kind, size, _ in load.asked if kind == "stylesheet") / 1000
        for page, load in loads.items()
    }
    assert {page: weight for page, weight in styles.items() if weight > OWN_STYLES} == {}


def test_the_font_of_formulas_comes_only_where_there_are_some(loads):
    font = "TeXGyrePagellaMath"
    assert not any(font in url for _, _, url in loads["index.html"].asked)
    assert any(font in url for _, _, url in loads["chapters/attention.html"].asked)


def test_nothing_moves_while_a_page_is_loaded(loads, visit):
    """On a machine with other work a font may come late by chance: a page has three visits."""
    seen = {path: [load.shifts] for path, load in loads.items()}
    for _ in range(2):
        for path, visits in moved(seen).items():
            visits.append(load(*visit(path)).shifts)
    assert moved(seen) == {}


def moved(seen: dict[str, list]) -> dict[str, list]:
    """The pages of which something moved at every visit."""
    return {
        path: visits
        for path, visits in seen.items()
        if all(sum(value for value, _ in shifts) >= SHIFT for shifts in visits)
    }


def test_pictures_that_are_far_away_wait(loads, built):
    site = built("book")
    page = "chapters/encoder-decoder.html"
    drawn = (site.folder / page).read_text(encoding="utf-8").count("<img ")
    assert drawn > 5
    assert sum(kind == "image" for kind, _, _ in loads[page].asked) < drawn
