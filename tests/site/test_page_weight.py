"""What a first visit to a page costs: bytes, requests, and what is put off until it is wanted."""

from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Request

pytestmark = pytest.mark.browser

KILOBYTES = 250  # compressed, without fonts and pictures
REQUESTS = 20
OWN_STYLES = 16  # kilobytes, compressed: what stands between a reader and the first line of text
PICTURES = ("image", "font")


@dataclass(frozen=True)
class Load:
    """All that a page asked for before its reader did anything, as (kind, bytes, address)."""

    asked: list[tuple[str, int, str]]

    def kilobytes(self, *kinds: str) -> float:
        return sum(size for kind, size, _ in self.asked if not kinds or kind in kinds) / 1000


@pytest.fixture(scope="module", params=[390, 1440])
def loads(request, browser: Browser, built, compressed) -> dict[str, Load]:
    found, opened = {}, {}
    for path in built("book").pages:  # each a first visit
        context = browser.new_context(viewport={"width": request.param, "height": 900})
        page = context.new_page()
        requests: list[Request] = []
        page.on("request", lambda one, requests=requests: requests.append(one))
        page.goto(compressed + path, wait_until="load")
        opened[path] = page, requests
    for path, (page, requests) in opened.items():  # all have had time to ask for more
        page.wait_for_load_state("networkidle")
        asked = [one for one in requests if not one.url.startswith("data:")]
        found[path] = Load([(r.resource_type, r.sizes()["responseBodySize"], r.url) for r in asked])
        page.context.close()
    return found


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


def test_pictures_that_are_far_away_wait(loads, built):
    site = built("book")
    page = "chapters/encoder-decoder.html"
    drawn = (site.folder / page).read_text(encoding="utf-8").count("<img ")
    assert drawn > 5
    assert sum(kind == "image" for kind, _, _ in loads[page].asked) < drawn
