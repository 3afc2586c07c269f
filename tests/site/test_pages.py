"""The built pages in a real browser: the book's own, and those of the reference project."""

import re
import time
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Page

pytestmark = pytest.mark.browser


# ---- What every page must hold, over every way to open it ----


def test_the_visits_saw_something(visits):
    assert len(visits) > 3
    for what in ("images", "formulas", "code blocks"):
        assert sum(visit.counts[what] for visit in visits.values()) > 0, f"no {what} to look at"


def test_no_console_error_and_no_script_error(visits):
    assert {page: visit.complaints for page, visit in visits.items() if visit.complaints} == {}


def test_no_request_fails(visits):
    assert {page: visit.failed for page, visit in visits.items() if visit.failed} == {}


def test_nothing_is_asked_of_another_origin(visits):
    assert {page: visit.foreign for page, visit in visits.items() if visit.foreign} == {}


def test_every_image_is_loaded(visits):
    assert {p: v.broken_images for p, v in visits.items() if v.broken_images} == {}


def test_every_formula_is_drawn(visits):
    assert {p: v.undrawn_formulas for p, v in visits.items() if v.undrawn_formulas} == {}


def test_every_code_block_can_be_copied(visits):
    assert {p: v.uncopyable_code for p, v in visits.items() if v.uncopyable_code} == {}


def test_no_page_breaks_its_policy_while_it_is_used(visits):
    assert {page: visit.broken for page, visit in visits.items() if visit.broken} == {}


@pytest.mark.parametrize("width", [360, 1600])
def test_no_page_scrolls_sideways(visits, width):
    overflow = {page: visit.overflow[width] for page, visit in visits.items()}
    assert {page: pixels for page, pixels in overflow.items() if pixels > 0} == {}


# ---- Links, read from the files ----


def test_every_internal_link_leads_somewhere(site):
    soups = {page: BeautifulSoup((site.folder / page).read_bytes(), "lxml") for page in site.pages}
    ids = {page: {tag["id"] for tag in soup.find_all(id=True)} for page, soup in soups.items()}
    dead, followed = [], 0
    for page, soup in soups.items():
        for link in soup.find_all("a", href=True):
            target = urlsplit(urljoin(page, link["href"]))
            if target.scheme or target.netloc:
                continue
            followed += 1
            path, fragment = unquote(target.path), unquote(target.fragment)
            if path not in ids and not (site.folder / path).is_file():
                dead.append(f"{page}: {link['href']}: no such file")
            elif fragment and path in ids and fragment not in ids[path]:
                dead.append(f"{page}: {link['href']}: no such place on the page")
    assert followed > 10
    assert dead == []


def test_no_id_is_given_twice_on_a_page(site):
    for page in site.pages:
        soup = BeautifulSoup((site.folder / page).read_bytes(), "lxml")
        ids = [tag["id"] for tag in soup.find_all(id=True)]
        assert sorted({id for id in ids if ids.count(id) > 1}) == [], page


def test_every_page_says_what_it_is(site):
    for page in site.pages:
        soup = BeautifulSoup((site.folder / page).read_bytes(), "lxml")
        assert soup.html["lang"], page
        assert soup.title.get_text(strip=True), page
        assert soup.select_one("main#quarto-document-content h1.title"), page
        listed = page != "404.html"  # shown in place of any page
        assert len(soup.select(".chapter-list [aria-current=page]")) == listed, page


@pytest.mark.parametrize("site", ["book"], indirect=True)
def test_every_verified_number_has_its_row(site):
    rows = site.folder / "chapters" / "verified-numbers.html"
    claims = {
        (page, id)
        for page in site.pages
        for tag in BeautifulSoup((site.folder / page).read_bytes(), "lxml").select(
            ".claim[data-claim], .claim-formula[data-claims]"
        )
        for id in (tag.get("data-claim") or tag.get("data-claims")).split()
    }
    if not rows.is_file():
        pytest.fail("the book has no page of verified numbers")
    known = {t["id"] for t in BeautifulSoup(rows.read_bytes(), "lxml").find_all(id=True)}
    assert claims
    assert {(page, id) for page, id in claims if f"number-{id}" not in known} == set()


# ---- Behaviour ----


def test_the_theme_button_changes_the_colours_and_is_remembered(open_page, site):
    page = open_page("index.html", color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    button = page.locator(".theme-button:visible")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    dark = page.evaluate(paper)
    assert brightness(dark) < 60 < 200 < brightness(light)
    assert button.get_attribute("aria-pressed") == "true"
    page.goto(page.url.replace("index.html", site.pages[-1]))
    assert page.evaluate(paper) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_the_reader_chooses(open_page, scheme):
    page = open_page("index.html", color_scheme=scheme)
    value = brightness(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (value > 200) == (scheme == "light")


def test_the_copy_button_copies_the_code_and_says_so(open_page, page_with):
    page = open_page(page_with("pre > code"))
    block = page.locator("main pre:has(+ .code-copy):visible").first
    block.locator("xpath=following-sibling::button").click()
    wait_until(page, "document.getElementById('announcer').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == block.text_content().rstrip("\n")


def test_the_drawer_opens_and_closes_by_keyboard(open_page):
    page = open_page("index.html", width=390)
    drawer, button = page.locator("#chapters"), page.locator(".drawer-button")
    assert not drawer.is_visible()
    button.focus()
    page.keyboard.press("Enter")
    wait_until(page, "document.activeElement.closest('#chapters') !== null")
    assert drawer.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className").startswith("icon-button drawer-button")
    drawer.wait_for(state="hidden")


def test_a_verified_number_shows_its_card_on_focus(open_page, page_with, site):
    path = page_with(".claim[data-claim]")
    source = BeautifulSoup((site.folder / path).read_bytes(), "lxml")
    title = source.select_one(".claim[data-claim]").get("title", "")
    page = open_page(path)
    claim = page.locator(".claim[data-claim]").first
    claim.focus()
    card = page.locator("#claim-card")
    assert card.is_visible()
    for sentence in title.split(". "):
        assert sentence in card.text_content()
    link = card.locator("a").first
    id = claim.get_attribute("data-claim")
    assert link.get_attribute("href").endswith(f"chapters/verified-numbers.html#number-{id}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#claim-card') !== null")
    page.keyboard.press("Escape")
    assert card.count() == 0
    assert page.evaluate("document.activeElement.classList.contains('claim')")


@pytest.mark.parametrize("width", [360, 1440])
def test_the_card_stays_inside_the_window(open_page, page_with, width):
    page = open_page(page_with(".claim[data-claim]"), width=width)
    for claim in page.locator(".claim[data-claim]:visible").all()[:20]:
        claim.focus()
        box = page.locator("#claim-card").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width


@pytest.mark.parametrize("site", ["reference"], indirect=True)
def test_tabs_follow_the_arrow_keys(open_page, page_with):
    page = open_page(page_with(".panel-tabset"))
    tabset = page.locator(".panel-tabset").first
    tabs, panels = tabset.locator("[role=tab]"), tabset.locator("[role=tabpanel]")
    assert [panel.is_visible() for panel in panels.all()][:2] == [True, False]
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert [panel.is_visible() for panel in panels.all()][:2] == [False, True]
    assert [tab.get_attribute("aria-selected") for tab in tabs.all()][:2] == ["false", "true"]
    page.keyboard.press("ArrowLeft")
    assert panels.first.is_visible()


def test_the_section_being_read_is_marked(open_page, page_with):
    page = open_page(page_with(".contents-side li:nth-child(2)"), width=1440)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.wait_for_selector(".contents-side a[aria-current]")
    assert page.locator(".contents-side a[aria-current]").count() == 1


# ---- Links into a page ----


@pytest.mark.parametrize("site", ["book"], indirect=True)
def test_a_link_to_a_place_stays_there_while_the_page_is_laid_out(open_page):
    """On a phone, where sections far away are laid out late: opened there, and led there."""
    path = "chapters/encoder-decoder.html"
    top = "(id) => document.getElementById(id).getBoundingClientRect().top"
    for place in ("sec-ed-decoder", "fig-ed-warmup", "eq-ed-entropy"):
        opened = open_page(f"{path}#{place}", width=390)
        led = open_page(path, width=390)
        led.evaluate(f"location.hash = '{place}'")
        for page in (opened, led):
            wait_until(page, f"Math.abs(({top})('{place}') - 55) < 60")
            page.evaluate("dispatchEvent(new Event('pointermove'))")  # the reader stirs
            wait_until(page, "'finished' in document.documentElement.dataset", 30)
            assert -5 <= page.evaluate(top, place) <= 115, place


# ---- Without scripts, and on paper ----


@pytest.mark.parametrize("site", ["reference"], indirect=True)
def test_without_scripts_nothing_is_hidden(open_page, page_with):
    page = open_page(page_with(".panel-tabset"), scripts=False, width=390)
    panels = page.locator(".panel-tabset [role=tabpanel]").all()
    assert panels and all(panel.is_visible() for panel in panels)
    page.locator(".drawer-link").click()
    assert page.locator("#chapters .chapter-list").is_visible()
    page.locator(".drawer-close").click()
    page.locator("#chapters").wait_for(state="hidden")


def test_paper_shows_the_text_and_what_is_folded_but_no_navigation(open_page, page_with):
    page = open_page(page_with("main details > :not(summary)"), color_scheme="dark", width=1440)
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for gone in (".sidebar", ".topbar", ".contents", ".page-turn", ".code-copy"):
        assert not any(part.is_visible() for part in page.locator(gone).all()), gone
    assert all(fold.get_attribute("open") == "" for fold in page.locator("main details").all())
    assert (
        page.evaluate("getComputedStyle(document.querySelector('main p')).color") == "rgb(0, 0, 0)"
    )


def wait_until(page: Page, condition: str, seconds: float = 10.0) -> None:
    """Wait for an expression to hold. Playwright's own way needs eval, which pages forbid."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition} did not come to hold"
        page.wait_for_timeout(20)


def brightness(colour: str) -> float:
    """Mean of red, green and blue of a CSS colour `rgb(…)`, 0 to 255."""
    red, green, blue = map(float, re.findall(r"[\d.]+", colour)[:3])
    return (red + green + blue) / 3
