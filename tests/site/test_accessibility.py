"""What axe-core finds wrong with the book's pages: nothing, in both themes, wide and narrow.

Every rule of axe-core is on, best practices and experimental ones included, but those in OFF. Two
things let it judge more than it could by itself: the shadows at the edges of what scrolls are taken
away, because it judges no text on a gradient, and all folds are opened. Contrast is judged on three
texts of each kind (same colours, size and weight), on the first page that has it; the other rules
on everything.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

WIDTHS = (390, 1440)
PAGE = "chapters/positional-encoding.html"  # with an explorer, formulas, tables, callouts
OFF = {
    "css-orientation-lock": "loads the style sheets again, which the page's policy forbids it",
    "focus-order-semantics": "experimental; what scrolls takes the focus without being a control",
}
PREPARE = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    "* { background-image: none !important; transition: none !important; }"
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  dispatchEvent(new Event("pointermove"));
}"""
FINISHED = "'finished' in document.documentElement.dataset"
# Three elements with text of their own for each way of looking that the page has.
KINDS = """() => {
  const kinds = new Map();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    if (!own.some((node) => node.data.trim().length > 1)) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    let behind = "";
    for (let at = element; at && !behind; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at);
      if (backgroundColor !== "rgba(0, 0, 0, 0)") behind = backgroundColor;
    }
    const kind = [style.color, behind, style.fontSize, style.fontWeight, style.opacity].join();
    kinds.set(kind, [...(kinds.get(kind) || []), element].slice(0, 3));
  }
  return kinds;
}"""
# `within`: the whole page, what stands around its text, or a selector.
RUN = """async ([within, only, off]) => {
  const contexts = { page: () => document, frame: () => ({ exclude: [["main"]] }) };
  const context = (contexts[within] || (() => ({ include: [[within]] })))();
  const wcag = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const rules = Object.fromEntries(off.map((name) => [name, { enabled: false }]));
  const runOnly = only.length ? only : [...wcag, "best-practice", "experimental"];
  const found = await axe.run(context, {
    ...(only.length ? { runOnly } : { runOnly, rules }),
    resultTypes: ["violations"],
    preload: false,
  });
  return {
    rules: found.passes.length + found.violations.length,
    violations: found.violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 5).map((it) => `${id}: ${it.html.slice(0, 160)}: ${it.failureSummary}`)),
  };
}"""
RUN_CONTRAST = f"""async ([known, only]) => {{
  const kinds = ({KINDS})();
  const texts = [...kinds.values()].flat().length;
  for (const kind of known) kinds.delete(kind);
  const include = [...kinds.values()].flat();
  const options = {{ runOnly: only, resultTypes: ["violations"], preload: false }};
  const violations = include.length ? (await axe.run({{ include }}, options)).violations : [];
  return {{
    texts,
    kinds: [...kinds.keys()],
    violations: violations.flatMap(({{ id, nodes }}) =>
      nodes.slice(0, 5).map((it) => `${{id}}: ${{it.html.slice(0, 160)}}: ${{it.failureSummary}}`)),
  }};
}}"""
# What depends on where things stand, and so on the width of the window.
LAID_OUT = ["target-size", "scrollable-region-focusable", "aria-hidden-focus", "meta-viewport"]
CONTRAST = ["color-contrast", "link-in-text-block"]
# The tables of the ledger have hundreds of rows of one kind: where all are judged once, a few do.
FEW_ROWS = """(few) => document.querySelectorAll("tbody").forEach((body) =>
  [...body.rows].slice(20).forEach((row) => { row.hidden = few; }))"""


TARGETS = """async (part) =>
  (await axe.run(part, { runOnly: ["target-size"], preload: false })).violations
    .flatMap(({ nodes }) => nodes.map((it) => it.html))"""


@pytest.fixture(scope="module")
def site(built):
    return built("book")


@pytest.fixture(scope="module")
def axe(web_tools: Path) -> str:
    return (web_tools / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def show(browser: Browser, compressed: str, axe: str) -> Iterator[Callable[..., Page]]:
    """Open a page, all folds open and all parts laid out, with axe-core in it."""
    context = browser.new_context(reduced_motion="reduce")

    def show(path: str, width: int) -> Page:
        for page in context.pages:
            page.close()
        page = context.new_page()
        page.emulate_media(color_scheme="light")
        become(page, width)
        page.goto(compressed + path, wait_until="load")
        page.evaluate(PREPARE)
        for _ in range(500):
            if page.evaluate(FINISHED):
                break
            page.wait_for_timeout(20)
        page.evaluate(axe)
        return page

    yield show
    context.close()


def become(page: Page, width: int) -> None:
    """Make the window as wide, and a narrow one that of a phone, which is touched."""
    page.set_viewport_size({"width": width, "height": 900})
    chromium = page.context.new_cdp_session(page)
    chromium.send("Emulation.setTouchEmulationEnabled", {"enabled": width < 600})
    coarse = page.evaluate("""async () => {
      await new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)));
      return matchMedia("(pointer: coarse)").matches;
    }""")
    assert coarse == (width < 600)


def judge(page: Page, *off: str, within: str = "page") -> list[str]:
    """What all rules but contrast say; this does not depend on the theme."""
    found = page.evaluate(RUN, [within, [], [*OFF, "color-contrast", *off]])
    assert found["rules"] > 20, "axe-core looked at nothing"
    return found["violations"]


def judge_contrast(page: Page, known: set[str] | None = None) -> list[str]:
    """What the two rules on colours say, in both themes.

    Args:
        known: kinds of text that need not be judged again; those judged now are added.
    """
    wrong, kinds = [], set() if known is None else known
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(RUN_CONTRAST, [sorted(kinds), CONTRAST])
        assert found["texts"] > 10, "no text to judge"
        kinds |= set(found["kinds"])
        wrong += [f"{scheme}: {one}" for one in found["violations"]]
    return wrong


def test_no_page_has_a_violation(show, site):
    """On a phone the text is the same: there what its layout decides, and all that stands around.

    It comes first, because what scrolls there is found out while the page is opened.
    """
    wrong, known = {}, {width: set() for width in WIDTHS}
    for path in site.pages:
        page = show(path, min(WIDTHS))
        page.evaluate(FEW_ROWS, True)
        found = judge(page) if path == PAGE else judge(page, within="frame")
        found += page.evaluate(RUN, ["page", LAID_OUT, []])["violations"]
        if found := [*found, *judge_contrast(page, known[min(WIDTHS)])]:
            wrong[path, min(WIDTHS)] = found
        page.evaluate(FEW_ROWS, False)
        page.emulate_media(color_scheme="light")
        become(page, max(WIDTHS))
        if found := [*judge(page), *judge_contrast(page, known[max(WIDTHS)])]:
            wrong[path, max(WIDTHS)] = found
    assert wrong == {}


def test_axe_sees_what_is_wrong(show):
    page = show("index.html", 1440)
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        " '<button></button><p class=\"pale\">too pale to read</p>')"
    )
    page.evaluate("document.querySelector('.pale').style.color = '#bbb'")
    assert [one.split(":")[0] for one in judge(page)] == ["button-name"]
    assert [one.split(":")[1].strip() for one in judge_contrast(page)] == ["color-contrast"]


# ---- With menus and hovers open ----

OPENED = {  # what is opened -> how, and what is seen then
    "the drawer": (lambda page: page.locator(".drawer-button").click(), "#chapters.open"),
    "the card of a number": (
        lambda page: page.locator("main .claim[data-claim]:visible").first.focus(),
        ".claim-card",
    ),
    "the card of a citation": (
        lambda page: page.locator("main p a[href*='references.html#ref-']").first.focus(),
        ".claim-card",
    ),
    "the card of a figure": (
        lambda page: page.locator("main p a[href*='#fig-']").first.focus(),
        ".claim-card",
    ),
    "the search": (lambda page: search(page, "softmax"), "dialog[open]"),
}


def search(page: Page, words: str) -> None:
    page.keyboard.press("/")
    page.locator("dialog[open] input").fill(words)
    page.locator("dialog[open] a").first.wait_for()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wrong_with_what_opens(show, width):
    page = show(PAGE, width)
    wrong = {}
    for what, (open_it, opened) in OPENED.items():
        if what == "the drawer" and width > 600:
            continue  # there the chapters stand beside the text
        page.emulate_media(color_scheme="light")
        open_it(page)
        page.locator(opened).first.wait_for(state="visible")
        # The text beneath was judged closed: here what has opened, and what stands around the text.
        # What lies half under a card is too small a target only until the card is closed.
        found = judge(page, "target-size", within="frame") + page.evaluate(TARGETS, opened)
        found += page.evaluate(RUN, [opened, [], [*OFF, "color-contrast"]])["violations"]
        found += page.evaluate(RUN, ["page", ["aria-hidden-focus"], []])["violations"]
        if found := [*found, *judge_contrast(page)]:
            wrong[what] = found
        page.keyboard.press("Escape")
        page.locator(opened).first.wait_for(state="hidden")
    assert wrong == {}


def test_what_is_wrong_in_a_card_is_seen(show):
    page = show(PAGE, max(WIDTHS))
    OPENED["the card of a number"][0](page)
    page.locator(".claim-card").first.wait_for(state="visible")
    page.evaluate("document.querySelector('.claim-card').append(document.createElement('button'))")
    found = page.evaluate(RUN, [".claim-card", [], [*OFF, "color-contrast"]])["violations"]
    assert [one.split(":")[0] for one in found] == ["button-name"]


def test_every_tab_can_be_read(show, site):
    paths = [p for p in site.pages if 'role="tab"' in (site.folder / p).read_text("utf-8")]
    for path, width in product(paths, WIDTHS):
        page = show(path, width)
        for tab in page.locator("[role=tab]:visible").all()[:4]:
            tab.click()
            assert judge_contrast(page) == [], (path, width)
