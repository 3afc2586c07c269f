"""The content security policy holds in a real browser; test_pages.py sees no page break it."""

import base64
import hashlib
import re

import pytest
from bs4 import BeautifulSoup

from conftest import LISTEN

pytestmark = pytest.mark.browser


def soups(site):
    return {page: BeautifulSoup((site.folder / page).read_bytes(), "lxml") for page in site.pages}


def added(html: str) -> str:
    return f"document.body.insertAdjacentHTML('beforeend', `{html}`);"


SCRIPT = "const script = document.createElement('script'); document.body.append(script);"
ATTACKS = {
    "an inline script": f"{SCRIPT} script.text = 'hit = 1'",
    "a foreign script": f"{SCRIPT} script.src = 'http://127.0.0.1:9/x.js'",
    "a handler": added('<img src="media/none" onerror="hit = 1">'),
    "an address": added('<a id="a" href="javascript:hit=1">x</a>') + "a.click()",
    "a style": added('<p style="position: fixed">x</p>'),
    "a foreign image": added('<img src="http://127.0.0.1:9/x.png">'),
    "a frame": added('<iframe src="index.html"></iframe>'),
    "a request": "fetch('http://127.0.0.1:9/').catch(() => 0)",
    "a form": added('<form action="/x"><button id="b">x</button></form>') + "b.click()",
}


@pytest.mark.parametrize("site", ["book"], indirect=True)
@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_policy_holds_against_what_a_page_might_be_made_to_do(
    browser, site, request, scheme, attack
):
    base = request.getfixturevalue("server") if scheme == "http" else site.folder.as_uri() + "/"
    page = browser.new_page()
    page.add_init_script(LISTEN)
    page.goto(base + "index.html", wait_until="load")
    page.evaluate(f"() => {{ {ATTACKS[attack]} }}")
    for _ in range(100):
        if page.evaluate("broken.length"):
            break
        page.wait_for_timeout(20)
    assert page.evaluate("window.hit") is None
    assert page.evaluate("broken.length") == 1, page.evaluate("broken")
    page.close()


def test_every_page_carries_the_policy_before_anything_that_it_governs(site):
    for path, soup in soups(site).items():
        first = soup.head.find(["script", "link", "style", "meta"], attrs={"charset": False})
        assert first.get("http-equiv") == "Content-Security-Policy", path
        assert len(soup.select('meta[http-equiv="Content-Security-Policy"]')) == 1


def test_no_page_has_code_or_styles_of_its_own_but_the_sheet_with_a_hash(site):
    sheets = 0
    for path, soup in soups(site).items():
        policy = soup.select_one("meta[http-equiv]")["content"]
        for script in soup.find_all("script"):
            assert script.get("src") and not script.get_text(), path
        for sheet in soup.find_all("style"):
            digest = base64.b64encode(hashlib.sha256(sheet.string.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
            sheets += 1
        for tag in soup.find_all(True):
            wrong = [name for name in tag.attrs if name == "style" or name.startswith("on")]
            assert wrong == [], (path, tag.name)
        for tag in soup.select("[href], [src]"):
            address = tag.get("href") or tag.get("src")
            assert not re.match(r"\s*(javascript|vbscript|data):", address, re.I), path
    assert sheets > 0


def test_columns_and_cells_look_as_their_styles_said(site, open_page, page_with):
    path = page_with("td.align-right")
    assert (
        open_page(path).evaluate(
            "getComputedStyle(document.querySelector('td.align-right')).textAlign"
        )
        == "right"
    )
    path = page_with("main [class*=styled-]")
    page = open_page(path)
    sheet = page.evaluate("document.querySelector('head > style').textContent")
    for name, rule in re.findall(r"^\.(styled-\d+)\S* \{ (.*) \}$", sheet, re.M):
        width = re.fullmatch(r"width: (\d+)%", rule)
        if width:
            got = page.evaluate(
                f"document.querySelector('col.{name}').computedStyleMap().get('width').toString()"
            )
            assert got == f"{width[1]}%"
