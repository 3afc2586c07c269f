"""Follow every link that leads out of the book, and say which of them lead nowhere any more.

Told apart: what is gone (the address is unknown to its host, or the host to the network), and what
cannot be known from here (the host refuses programs, or has trouble of its own).
"""

import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

GONE = {404, 410}
# A DOI exists when its registry knows where to send a reader; publishers often refuse programs.
REGISTRIES = {"doi.org", "dx.doi.org"}
MARKDOWN_LINK = re.compile(r"(?:\]\(|<)(https?://[^\s)>]+)")
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; book link check)", "Accept": "*/*"}
SECONDS = 20.0
PAUSE = 1.0  # between two requests to one host

# (url, method) → status. Raises OSError where nothing answers.
Fetch = Callable[[str, str], int]


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        href = dict(attributes).get("href") or ""
        if tag == "a" and href.startswith(("http://", "https://")):
            self.found.append(href)


def collect(root: Path, site: Path) -> dict[str, list[str]]:
    """Address → where it stands: pages of the site, and Markdown files on top of the project."""
    found: dict[str, list[str]] = {}
    for page in sorted(site.rglob("*.html")):
        parser = _Links()
        parser.feed(page.read_text(encoding="utf-8", errors="replace"))
        for url in parser.found:
            _note(found, url, page.relative_to(site).as_posix())
    for path in sorted([*root.glob("*.md"), *root.glob("media/*.md")]):
        for url in MARKDOWN_LINK.findall(path.read_text(encoding="utf-8")):
            _note(found, url, path.relative_to(root).as_posix())
    return dict(sorted(found.items()))


def _note(found: dict[str, list[str]], url: str, place: str) -> None:
    places = found.setdefault(url.partition("#")[0], [])
    if place not in places:
        places.append(place)


def follow(
    links: Mapping[str, list[str]],
    fetch: Fetch | None = None,
    *,
    tries: int = 3,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Follow all links, several hosts at once and each host one by one; a report."""
    fetch = fetch or request
    hosts: dict[str, list[str]] = {}
    for url in links:
        hosts.setdefault(urlsplit(url).netloc, []).append(url)

    def one_host(urls: Iterable[str]) -> list[tuple[str, str, str]]:
        said = []
        for number, url in enumerate(urls):
            if number:
                sleep(PAUSE)
            said.append((url, *_verdict(url, fetch, tries, sleep)))
        return said

    with ThreadPoolExecutor(8) as pool:
        said = sorted(line for lines in pool.map(one_host, hosts.values()) for line in lines)
    rows = [
        {"url": url, "why": why, "places": links[url], "state": state} for url, state, why in said
    ]
    return {
        "links": len(links),
        "gone": [row for row in rows if row["state"] == "gone"],
        "unknown": [row for row in rows if row["state"] == "unknown"],
    }


def _verdict(url: str, fetch: Fetch, tries: int, sleep: Callable[[float], None]) -> tuple[str, str]:
    state, why = "unknown", ""
    for attempt in range(tries):
        if attempt:
            sleep(PAUSE * 2**attempt)
        state, why = _once(url, fetch)
        if state == "well":
            break
    return state, why


def _once(url: str, fetch: Fetch) -> tuple[str, str]:
    status = 0
    for method in ("HEAD", "GET"):  # some hosts know only the second
        try:
            status = fetch(url, method)
        except OSError as error:
            return _no_answer(error)
        if status < 400:
            return "well", ""
        if status in GONE and method == "GET":
            return "gone", f"HTTP {status}"
    return "unknown", f"HTTP {status}"


def _no_answer(error: OSError) -> tuple[str, str]:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return "gone", f"its certificate is not valid: {reason.verify_message}"
    if isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME:
        return "gone", "its host is not known"
    if isinstance(reason, TimeoutError):
        return "unknown", f"no answer in {SECONDS:g} s"
    return "unknown", str(reason) or type(reason).__name__


class _StopAtRegistry(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, *rest):
        if urlsplit(request.full_url).hostname in REGISTRIES:
            return None  # then the redirect itself is the answer
        return super().redirect_request(request, *rest)


def request(url: str, method: str) -> int:
    """The status that a host answers with, after its redirects."""
    opener = urllib.request.build_opener(_StopAtRegistry)
    asked = urllib.request.Request(url, method=method, headers=HEADERS)
    try:
        with opener.open(asked, timeout=SECONDS) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except ValueError as error:  # no address at all
        raise OSError(str(error)) from None
