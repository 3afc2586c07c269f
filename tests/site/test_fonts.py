"""When the book's fonts are asked for.

The first page of a visit asks for that of its text, and for the others once it is drawn; later
pages ask for all at once.
"""

import pytest
from playwright.sync_api import Page

from conftest import FONTS

pytestmark = pytest.mark.browser

PAGE = "chapters/attention.html"  # text, code and formulas: it needs all the fonts
NEXT = "chapters/masking.html"
TIMES = """() => ({
  drawn: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  asked: performance.getEntriesByType("resource")
    .filter((one) => one.name.endsWith(".woff2"))
    .map((one) => [one.name.split("/").pop(), one.startTime]),
})"""
STANDS_IN = "document.documentElement.classList.contains('stand-in')"


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


def with_fonts(page: Page) -> dict:
    """When the page was drawn and its fonts were asked for, once they are there."""
    page.evaluate(FONTS)
    assert page.evaluate("document.fonts.check('1em Literata')")
    return page.evaluate(TIMES)


@pytest.mark.parametrize(
    ("path", "ahead"),
    [
        (PAGE, {"Literata-Regular.woff2"}),
        ("chapters/references.html", {"Literata-Regular.woff2", "Literata-Italic.woff2"}),
    ],
)
def test_the_first_page_is_drawn_before_it_asks_for_most_fonts(page, compressed, path, ahead):
    page.goto(compressed + path)
    seen = with_fonts(page)
    early = {name for name, time in seen["asked"] if time < seen["drawn"]}
    assert early == ahead
    assert len({name for name, _ in seen["asked"]} - ahead) >= 2


def test_later_pages_ask_for_all_at_once(page, compressed):
    page.goto(compressed + PAGE)
    with_fonts(page)
    page.goto(compressed + NEXT)
    assert not page.evaluate(STANDS_IN)
    seen = with_fonts(page)
    early = {name for name, time in seen["asked"] if time < seen["drawn"]}
    assert early >= {"Literata-Regular.woff2", "Inter-Regular.woff2"}


def test_from_the_disk_they_are_asked_for_at_once(page, bases):
    page.goto(bases["file"] + PAGE, wait_until="commit")
    assert not page.evaluate(STANDS_IN)


@pytest.mark.parametrize(
    "browser_says",
    [
        "delete window.PerformanceObserver",  # nothing of what it draws
        "window.PerformanceObserver = class { observe() {} }",  # that it has drawn nothing yet
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new Error() } })",
    ],
)
def test_they_come_in_any_browser(page, compressed, browser_says):
    errors = []
    page.on("pageerror", lambda error: errors.append(error))
    page.add_init_script(browser_says)
    page.goto(compressed + PAGE)
    assert len(with_fonts(page)["asked"]) >= 5
    assert errors == []


def test_what_is_printed_has_them(page, compressed):
    page.add_init_script("window.PerformanceObserver = class { observe() {} }")
    page.goto(compressed + PAGE)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.evaluate(STANDS_IN)
