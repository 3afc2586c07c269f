"""A built site, a browser, and what a visit to each page saw."""

import fcntl
import gzip
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect, sync_playwright

from bookbuild.project import load_project
from bookbuild.render import render_site

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "quarto-reference"
PROJECTS = {  # name -> the project's folder, and its freeze
    "book": (ROOT, ROOT / "_freeze"),
    "reference": (REFERENCE / "project", REFERENCE / "expected" / "_freeze"),
}
WEB_TOOLS = ROOT / "tests" / "web-tools"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
]
WIDTHS = (1600, 360)
expect.set_options(timeout=20_000)  # on a machine whose cores are busy a card takes seconds

LISTEN = """
window.broken = [];
document.addEventListener("securitypolicyviolation", (event) =>
  broken.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""

# Read in the page: what is there, and what is wrong with it.
LOOK = """
async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  for (const image of all("img")) image.loading = "eager"; // the far ones wait for a reader
  for (const image of all("img")) await image.decode().catch(() => {});
  const formulas = all(".math");
  const code = all("main pre > code").filter(
    (block) => !block.closest(".cell-output, .code-with-filename-file"));
  return {
    counts: {images: all("main img").length, formulas: formulas.length, "code blocks": code.length},
    broken_images: all("img").filter((image) => !image.naturalWidth).map((image) => image.src),
    undrawn_formulas: formulas
      .filter((it) => !it.querySelector(":scope > math > semantics > annotation"))
      .map((formula) => formula.textContent),
    uncopyable_code: code
      .filter((block) => !block.parentElement.parentElement.querySelector(":scope > .code-copy"))
      .map((block) => block.textContent),
  };
}
"""
# The page is drawn in the fonts of this machine first, then in its own: see theme.js.
FONTS = """
async () => {
  const page = document.documentElement;
  while (page.classList.contains("stand-in")) await new Promise((then) => setTimeout(then, 10));
  document.body.getBoundingClientRect(); // it is laid out, and so has asked for all that it wants
  await document.fonts.ready;
  await new Promise(requestAnimationFrame);
}
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass(frozen=True)
class Site:
    """A rendered site: its folder, and its pages relative to it."""

    folder: Path
    pages: tuple[str, ...]


@dataclass(frozen=True)
class Visit:
    """What one page showed and asked for when a browser opened it."""

    complaints: list[str]  # errors and warnings on the console, uncaught errors
    failed: list[str]
    foreign: list[str]  # requests that leave the site's own origin or folder
    counts: Mapping[str, int]
    broken_images: list[str]
    undrawn_formulas: list[str]
    uncopyable_code: list[str]
    overflow: Mapping[int, int]  # window's width -> pixels by which the page is wider
    broken: list[str]  # what its content policy refused while it was used


def build(root: Path, freeze: Path, output: Path, fragments: Path) -> None:
    """Render the project in `root` from what is frozen in `freeze`; nothing is executed."""
    project = load_project(root)
    markdown, figures = {}, {}
    for chapter in project.chapters:
        folder = freeze / chapter.path.removesuffix(".qmd")
        html = folder / "execute-results" / "html.json"
        if html.is_file():
            markdown[chapter.path] = json.loads(html.read_bytes())["result"]["markdown"]
            figures[chapter.path] = folder / "figure-html"
        else:
            markdown[chapter.path] = project.source(chapter)
    output.mkdir()
    render_site(project, output, markdown, figures, fragments, jobs=2)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Site]:
    """Render a project by its name, once for all processes that share the tests."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent  # each worker has a folder of its own below that of the run

    @cache
    def built(name: str) -> Site:
        folder = shared / f"built-{name}"
        folder.mkdir(exist_ok=True)
        output = folder / "site"
        with locked(folder / "lock"):
            if not output.is_dir():
                shutil.rmtree(folder / "begun", ignore_errors=True)
                build(*PROJECTS[name], folder / "begun", folder / "fragments")
                (folder / "begun").rename(output)
        pages = sorted(path.relative_to(output).as_posix() for path in output.rglob("*.html"))
        return Site(output, tuple(pages))

    return built


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds the file; a process that dies lets go of it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session", params=PROJECTS)
def site(request: pytest.FixtureRequest, built: Callable[[str], Site]) -> Site:
    return built(request.param)


@pytest.fixture(scope="session")
def chromium() -> str:
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.fail("no Chromium: install Debian's `chromium`, or name the program in CHROMIUM")
    return program


# For one file of tests at a time: while Playwright runs, so does its event loop, and nothing else
# in this process can have one, not even the execution of a chapter.
@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(site: Site) -> Iterator[str]:
    """The site on a loopback port: its address, ending in a slash."""
    with served(site.folder) as address:
        yield address


@pytest.fixture(scope="module")
def bases(built: Callable[[str], Site]) -> Iterator[dict[str, str]]:
    """Where the book lies: on the disk, and on a loopback port."""
    folder = built("book").folder
    with served(folder) as address:
        yield {"file": folder.as_uri() + "/", "http": address}


@contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler] | None = None) -> Iterator[str]:
    """A folder on a loopback port: its address, ending in a slash."""
    handles = partial(handler or QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handles) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()


def lacking(text: str) -> None:
    """Skip a test for want of a program; where CI runs, which installs them all, fail."""
    pytest.fail(text) if os.environ.get("CI") else pytest.skip(text)


@pytest.fixture(scope="session")
def java() -> str:
    program = shutil.which("java")
    if program is None:
        lacking("needs Java: install default-jre-headless")
    return program


@pytest.fixture(scope="session")
def web_tools() -> Path:
    """Where npm put the tools that judge pages, in the versions of tests/web-tools."""
    modules = WEB_TOOLS / "node_modules"
    if not (modules / "made-from.json").is_file():
        lacking("needs Node: install nodejs and npm, then `make test` adds the tools by itself")
    return modules


@pytest.fixture(scope="session")
def compressed(built: Callable[[str], Site]) -> Iterator[str]:
    """The book on a loopback port that compresses texts, as every public server does."""
    with served(built("book").folder, CompressingHandler) as address:
        yield address


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # a page was closed before all its pictures had come
            super().handle_one_request()


class CompressingHandler(QuietHandler):
    protocol_version = "HTTP/1.1"
    TEXTS = (".html", ".css", ".js", ".svg", ".txt", ".xml", ".json", ".md")

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        self.send_response(200 if path.is_file() else 404)
        data = path.read_bytes() if path.is_file() else b""
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Cache-Control", "max-age=3600")
        if path.suffix in self.TEXTS:
            data = gzip.compress(data, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module", params=["server", "file"])
def visits(request: pytest.FixtureRequest, site: Site, browser: Browser) -> dict[str, Visit]:
    """One visit to every page, from a server and from the disk."""
    if request.param == "server":
        base = request.getfixturevalue("server")
    else:
        base = site.folder.as_uri() + "/"
    return {page: visit(browser, base, page) for page in site.pages}


def visit(browser: Browser, base: str, path: str) -> Visit:
    complaints, failed, foreign = [], [], []
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 900})
    page.add_init_script(LISTEN)
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else 0)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else 0)
    page.on("request", lambda request: foreign.append(request.url))
    page.goto(base + path, wait_until="load")
    seen = page.evaluate(LOOK)
    overflow = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(FONTS)
        overflow[width] = page.evaluate(OVERFLOW)
    use(page)
    broken = page.evaluate("broken")
    page.close()
    foreign = [url for url in foreign if not url.startswith((base, "data:"))]
    return Visit(complaints, failed, foreign, overflow=overflow, broken=broken, **seen)


def use(page: Page) -> None:
    """What readers do with a page: another theme, cards of numbers, code copied, print."""
    page.locator(".theme-button:visible").first.click()
    for claim in page.locator(".claim:visible, .claim-formula:visible").all()[:3]:
        claim.focus()
    for button in page.locator(".code-copy:visible").all()[:1]:
        button.click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")


@pytest.fixture
def page_with(site: Site) -> Callable[[str], str]:
    """The first page that holds an element."""

    def find(selector: str) -> str:
        for page in site.pages:
            if BeautifulSoup((site.folder / page).read_bytes(), "lxml").select_one(selector):
                return page
        pytest.fail(f"no page of this site holds {selector}")

    return find


@pytest.fixture
def open_page(site: Site, server: str, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page of the site in a fresh profile."""
    contexts = []

    def open_page(
        path: str, *, width: int = 1440, color_scheme: str = "light", scripts: bool = True
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=color_scheme,
            java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
            reduced_motion="reduce",
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.goto(server + path, wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
