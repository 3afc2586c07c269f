"""What helps in reading, in a real browser: cards of links, links to places, the way to the top."""

import json
import re
import time
from urllib.parse import urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("site", ["book"], indirect=True)]

KINDS = {  # kind -> how the text links to it
    "figure": "a.quarto-xref[href*='#fig-']",
    "table": "a.quarto-xref[href*='#tbl-']",
    "equation": "a.quarto-xref[href*='#eq-']",
    "section": "a.quarto-xref[href*='.html#sec-']",
    "reference": "a[role=doc-biblioref]",
    "term": "a[href*='glossary.html#term-']",
}
PROSE = "main p:not(.callout *, details *)"


@pytest.fixture(scope="module")
def soups(built):
    """Every page of the book, read once."""
    site = built("book")
    return {page: BeautifulSoup((site.folder / page).read_bytes(), "lxml") for page in site.pages}


def cards(site):
    script = (site.folder / "media/site/cards.js").read_text(encoding="utf-8")
    return json.loads(script.removeprefix("window.bookCards=").rstrip().removesuffix(";"))


def words(text):
    return " ".join(re.sub(r"[^\w\s]", " ", text).split())


@pytest.fixture
def find_link(soups):
    """The first page with a link of some kind in its running text, and that link's place in it."""

    def find(kind):
        for page, one in soups.items():
            if one.select_one(f"{PROSE} {KINDS[kind]}"):
                return page, f"{PROSE} {KINDS[kind]}"
        pytest.fail(f"no page links to a {kind}")

    return find


# ---- What the cards hold, read from the files ----


def test_every_target_in_the_text_has_a_card(site, soups):
    known, missing, seen = cards(site), set(), set()
    for page, one in soups.items():
        for link in one.select(", ".join(f"main p {kind}" for kind in KINDS.values())):
            target = urljoin(page, link["href"])
            seen.add(target)
            if target not in known:
                missing.add(target)
    assert len(seen) > 100
    assert missing == set()


def test_a_card_says_what_its_target_says(site, soups):
    """Looked up anew in the pages: captions, entries and definitions, word by word."""
    compared = 0
    for key, (kind, html) in cards(site).items():
        page, _, id = key.partition("#")
        shown = words(BeautifulSoup(html, "lxml").get_text(" "))
        target = soups[page].find(id=id) if id else None
        if kind in ("figure", "table", "listing"):
            said = target.find_all("figcaption")[-1].get_text(" ")
        elif kind == "reference":
            said = target.get_text(" ")
        elif kind == "term":
            said = target.find_parent("dt").find_next_sibling("dd").get_text(" ")
        elif kind == "equation":
            said = target.find(class_="math").find("annotation").get_text()
        else:
            continue
        assert words(said) in shown, key
        compared += 1
    assert compared > 80


def test_cards_hold_no_ids_styles_or_code_and_lead_nowhere_that_is_not_there(site, soups):
    known = {page: {tag["id"] for tag in one.find_all(id=True)} for page, one in soups.items()}
    for key, (_, html) in cards(site).items():
        card = BeautifulSoup(html, "lxml")
        for tag in card.find_all(True):
            assert not {"id", "style", "tabindex"} & set(tag.attrs), key
            assert tag.name not in {"script", "style", "button", "iframe"}, key
        for image in card.find_all("img"):
            assert (site.folder / image["src"]).is_file(), (key, image["src"])
        for link in card.find_all("a"):
            parts = urlsplit(link["href"])
            if not parts.scheme:
                assert (site.folder / parts.path).is_file(), (key, link["href"])
                assert not parts.fragment or parts.fragment in known[parts.path], key


def test_a_long_table_is_cut_and_says_so(site):
    cut = [html for kind, html in cards(site).values() if kind == "table" and "more rows" in html]
    assert cut
    for html in cut:
        assert len(BeautifulSoup(html, "lxml").select("tbody tr")) == 4


# ---- How they are shown ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["hover", "focus"])
def test_a_link_shows_its_target(open_page, find_link, site, kind, way):
    path, selector = find_link(kind)
    page = open_page(path)
    link = page.locator(selector).first
    if way == "hover":
        link.hover()
    else:
        tab_to(page, link)
    card = page.locator("#link-card")
    expect(card).to_be_visible()
    assert kind in card.get_attribute("class")
    target = urljoin(path, link.get_attribute("href"))
    expected = BeautifulSoup(cards(site)[target][1], "lxml")
    if kind == "equation":
        assert card.locator("math").bounding_box()["height"] > 20
    else:
        assert words(expected.get_text())[:60] in words(card.text_content())
    if kind == "figure":
        shown = card.locator("img").first
        wait_until(page, "document.querySelector('#link-card img').naturalWidth > 0")
        assert shown.get_attribute("alt")
    inside(page, card)


def test_cards_are_shown_from_the_disk_too(browser, site, find_link):
    path, selector = find_link("term")
    page = browser.new_page()
    page.goto((site.folder / path).as_uri())
    page.locator(selector).first.hover()
    expect(page.locator("#link-card")).to_be_visible()
    page.close()


def test_a_card_stays_while_the_pointer_is_on_it_and_goes_when_it_leaves(open_page, find_link):
    path, selector = find_link("term")
    page = open_page(path)
    page.locator(selector).first.hover()
    card = page.locator("#link-card")
    expect(card).to_be_visible()
    box = card.bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + box["height"] / 2, steps=4)
    page.wait_for_timeout(500)
    assert card.is_visible()
    page.mouse.move(5, 5)
    expect(card).to_have_count(0)


def test_escape_closes_a_card_and_the_focus_stays(open_page, find_link):
    path, selector = find_link("term")
    page = open_page(path)
    link = page.locator(selector).first
    tab_to(page, link)
    card = page.locator("#link-card")
    expect(card).to_be_visible()
    assert link.get_attribute("aria-describedby") == "link-card"
    page.keyboard.press("Escape")
    assert card.count() == 0
    assert link.evaluate("it => it === document.activeElement")
    assert link.get_attribute("aria-describedby") is None


def test_the_keyboard_reaches_the_links_in_a_card_and_comes_back(open_page, find_link):
    path, selector = find_link("term")
    page = open_page(path)
    link = page.locator(selector).first
    tab_to(page, link)
    expect(page.locator("#link-card a").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#link-card') !== null")
    page.keyboard.press("Escape")
    assert page.locator("#link-card").count() == 0
    assert link.evaluate("it => it === document.activeElement")


def test_enter_follows_the_link(open_page, find_link):
    path, selector = find_link("section")
    page = open_page(path)
    link = page.locator(selector).first
    target = link.evaluate("it => it.href")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(target)


def test_a_tap_shows_the_card_and_the_next_one_follows_the_link(browser, server, find_link):
    path, selector = find_link("term")
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(server + path, wait_until="load")
    link = page.locator(selector).first
    target = link.evaluate("it => it.href")
    link.tap()
    card = page.locator("#link-card")
    expect(card).to_be_visible()
    assert page.url == server + path
    inside(page, card)
    go = card.locator(".card-go a")
    assert go.evaluate("it => it.href") == target
    assert go.bounding_box()["height"] >= 24
    page.locator("h1").tap()  # beside it
    expect(card).to_have_count(0)
    link.tap()
    expect(card).to_be_visible()
    link.tap()
    page.wait_for_url(target)
    context.close()


def test_a_number_and_a_link_never_have_a_card_at_once(open_page, find_link):
    path, selector = find_link("term")
    page = open_page(path)
    page.locator(".claim:visible").first.focus()
    assert page.locator("#claim-card").is_visible()
    page.locator(selector).first.hover()
    expect(page.locator("#link-card")).to_be_visible()
    assert page.locator(".claim-card").count() == 1


def test_menus_and_the_marks_of_headings_have_no_cards(open_page):
    page = open_page("chapters/masking.html")
    for selector in (".contents-side a", ".breadcrumbs a", ".chapter-list a", "h2 .anchor-link"):
        page.locator(selector).first.hover(force=True)
        page.wait_for_timeout(300)
        assert page.locator(".claim-card").count() == 0, selector


# ---- Links to places ----


def test_figures_tables_formulas_and_listings_have_links_of_their_own(open_page, site, soups):
    labels = r"^(fig|tbl|lst|eq)-"
    for path in ("chapters/attention.html", "chapters/bert.html", "chapters/masking.html"):
        body = soups[path].main
        wanted = {
            tag["id"]
            for tag in body.find_all(id=re.compile(labels))
            if "quarto-subfloat-fig" not in tag.get("class", [])
            and not tag["id"].endswith("-caption")
        }
        page = open_page(path)
        links = page.locator("main .place-link")
        found = [link.get_attribute("href").lstrip("#") for link in links.all()]
        assert sorted(found) == sorted(wanted)
        assert all(re.match(r"Link to (Figure|Table|Listing|Equation)\s\(?\d", name) for name in
                   links.evaluate_all("all => all.map((it) => it.ariaLabel)"))  # fmt: skip


@pytest.mark.parametrize("selector", ["h2 .anchor-link", "figcaption .place-link"])
def test_a_link_to_a_place_is_copied_in_full_and_says_so(open_page, selector):
    page = open_page("chapters/attention.html")
    link = page.locator(f"main {selector}").first
    link.click()
    wait_until(page, "document.getElementById('announcer').textContent === 'Link copied'")
    address = link.evaluate("it => it.href")
    assert page.evaluate("navigator.clipboard.readText()") == address
    assert page.url == address  # and works as a link
    assert link.evaluate("it => it === document.activeElement")


# ---- Where one is, and back to the top ----


def test_breadcrumbs_lead_from_the_book_to_the_page(site, soups):
    crumbs = {
        page: [item.get_text(strip=True) for item in one.select(".breadcrumbs li")]
        for page, one in soups.items()
    }
    assert crumbs["index.html"] == []
    assert crumbs["chapters/attention.html"] == ["The Measured Transformer", "Chapter 1"]
    assert crumbs["chapters/porting.html"][:2] == ["The Measured Transformer", "Appendices"]
    assert crumbs["chapters/porting.html"][2].startswith("Appendix ")
    assert crumbs["chapters/references.html"] == ["The Measured Transformer", "References"]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_way_back_to_the_top_shows_far_down_and_leads_there(open_page, width):
    page = open_page("chapters/bert.html", width=width)
    link = page.locator(".back-to-top")
    assert not link.is_visible()
    page.evaluate("scrollTo(0, 4000)")
    expect(link).to_be_visible()
    box = link.bounding_box()
    assert min(box["width"], box["height"]) >= 24
    link.click()
    wait_until(page, "scrollY < 60")
    expect(link).to_be_hidden()


def test_without_scripts_links_are_links(open_page, find_link):
    path, selector = find_link("term")
    page = open_page(path, scripts=False)
    assert page.locator(".back-to-top").is_visible()
    assert not any(button.is_visible() for button in page.locator(".search-button").all())
    page.locator(selector).first.click()
    assert "glossary.html#term-" in page.url


# ---- The glossary ----


def test_every_term_is_defined_once_and_leads_to_where_it_is_introduced(site, soups):
    glossary = soups["chapters/glossary.html"].main
    terms = [dt.find(id=re.compile("^term-")) for dt in glossary.find_all("dt")]
    assert len(terms) > 40 and None not in terms
    names = [term.get_text().lower() for term in terms]
    assert len(set(names)) == len(names)
    for term in terms:
        meaning = term.find_parent("dt").find_next_sibling("dd")
        assert meaning.find("a", href=re.compile(r"\.html(#sec-|#how-|$)")), term["id"]
    for group in glossary.find_all("dl"):
        listed = [dt.get_text().lower().strip("[]") for dt in group.find_all("dt")]
        assert listed == sorted(listed)


def test_every_chapter_marks_its_terms_where_they_first_come_up(site, soups):
    for page, one in soups.items():
        if not re.search(r"/(attention|positional|masking|encoder|classifier|bert)", page):
            continue
        links = [link["href"] for link in one.select("main a[href*='#term-']")]
        assert len(links) >= 8, page
        assert len(set(links)) == len(links), page


# ---- Help ----


def tab_to(page: Page, link):
    """Focus as the keyboard does, so that the focus is one that shows."""
    link.evaluate("""(link) => {
      const before = document.createElement("button");
      before.id = "before";
      link.before(before);
      before.focus();
    }""")
    page.keyboard.press("Tab")
    page.evaluate("document.getElementById('before').remove()")
    assert link.evaluate("it => it === document.activeElement")


def inside(page: Page, card):
    box, size = card.bounding_box(), page.viewport_size
    assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"]
    assert box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


def wait_until(page: Page, condition: str, seconds: float = 10.0) -> None:
    """Wait for an expression to hold. Playwright's own way needs eval, which pages forbid."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition} did not come to hold"
        page.wait_for_timeout(20)
