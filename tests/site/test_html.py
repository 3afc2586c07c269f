"""The pages as text: valid HTML by the validator of the W3C, and no link that leads nowhere."""

import json
import subprocess
from itertools import pairwise
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup

# What the validator says of every page and what need not be mended.
ACCEPTED = (
    "Trailing slash on void elements",  # pandoc writes <img />: as good as <img>
    "Resource violates Content Security Policy",  # it reads 'self' as no address, having none
    "Section lacks heading",  # the notes at the end of a page, which their role doc-endnotes names
)


@pytest.fixture(scope="module")
def judged(site, web_tools, java) -> list[dict]:
    """All that the validator says of all pages of a site."""
    jar = web_tools / "vnu-jar" / "build" / "dist" / "vnu.jar"
    pages = [str(site.folder / page) for page in site.pages]
    done = subprocess.run(
        [java, "-Xss2m", "-jar", jar, "--format", "json", *pages],
        capture_output=True,
        check=False,
    )
    return json.loads(done.stderr)["messages"]


def test_every_page_is_valid_html(judged):
    assert judged, "the validator saw no page: of these it always has something to say"
    wrong = [message for message in judged if message["type"] != "info"]
    assert [said(message) for message in wrong] == []


def test_the_validator_warns_of_nothing_new(judged):
    others = [m for m in judged if not m["message"].startswith(ACCEPTED)]
    assert [said(message) for message in others] == []


def said(message: dict) -> str:
    place = f"{message.get('url', '').rsplit('/', 1)[-1]}:{message.get('lastLine', 0)}"
    return f"{place}: {message['message']} {message.get('extract', '')!r}"


@pytest.mark.parametrize("site", ["reference"], indirect=True)
def test_the_validator_sees_a_slip(site, web_tools, java, tmp_path):
    html = (site.folder / "index.html").read_text(encoding="utf-8")
    (tmp_path / "slip.html").write_text(html.replace("</main>", "<p></div></main>"), "utf-8")
    jar = web_tools / "vnu-jar" / "build" / "dist" / "vnu.jar"
    command = [java, "-jar", jar, "--errors-only", str(tmp_path / "slip.html")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


# ---- Links: every address that a page holds, not only those of <a> ----


@pytest.fixture(scope="module")
def soups(site) -> dict[str, BeautifulSoup]:
    return {page: BeautifulSoup((site.folder / page).read_bytes(), "lxml") for page in site.pages}


def places(soup: BeautifulSoup) -> set[str]:
    return {tag["id"] for tag in soup.find_all(id=True)}


def test_every_address_inside_the_site_is_there(site, soups):
    known = {page: places(soup) for page, soup in soups.items()}
    broken, followed = [], 0
    for page, soup in soups.items():
        for tag in soup.find_all(lambda tag: tag.get("href") or tag.get("src")):
            address = tag.get("href") or tag.get("src")
            parts = urlsplit(urljoin(page, address))
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            path, fragment = unquote(parts.path), unquote(parts.fragment)
            if path.startswith(("/", "..")) or not (site.folder / path).is_file():
                broken.append(f"{page}: <{tag.name}> {address}: no such file")
            elif fragment and path in known and fragment not in known[path]:
                broken.append(f"{page}: <{tag.name}> {address}: no such place")
    assert followed > 100
    assert broken == []


def test_names_that_parts_give_to_each_other_exist(soups):
    missing = []
    for page, soup in soups.items():
        ids = places(soup)
        for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for", "headers"):
            for tag in soup.find_all(attrs={name: True}):
                wanted = tag[name] if isinstance(tag[name], list) else tag[name].split()
                missing += [f"{page}: {name}={id}" for id in wanted if id not in ids]
    assert missing == []


def test_every_picture_has_its_size_and_its_description(soups):
    pictures = [(page, image) for page, soup in soups.items() for image in soup.select("main img")]
    assert pictures
    for page, image in pictures:
        assert int(image["width"]) > 0 and int(image["height"]) > 0, (page, image["src"])
        assert image.has_attr("alt"), (page, image["src"])


def test_headings_leave_out_no_level(soups):
    for page, soup in soups.items():
        levels = [int(tag.name[1]) for tag in soup.select("main :is(h1, h2, h3, h4, h5, h6)")]
        assert levels[0] == 1, page
        steps = [later - earlier for earlier, later in pairwise(levels)]
        assert max(steps, default=0) <= 1, (page, levels)
