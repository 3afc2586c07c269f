"""Check that the pages of a site, ours or Quarto's, lead and load only to where something is.

What leads out of the site is not followed here: see `watch_links`. But nothing may be loaded from
there: the pages ask no third party for anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes of elements that a browser loads without being asked.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("video", "src"),
    ("audio", "src"),
    ("embed", "src"),
    ("object", "data"),
}
# Of <link>: these are loaded; others, such as next or canonical, only name something.
LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "prefetch"}


@dataclass
class _Page:
    """What a page has and wants. Wishes: line, address, whether it is loaded at once."""

    anchors: set[str] = field(default_factory=set)
    wishes: list[tuple[int, str, bool]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.page = _Page()

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        self.page.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        line = self.getpos()[0]
        for name, value in found.items():
            if (tag, name) in LOADED:
                self.page.wishes.append((line, value, True))
            elif tag in ("a", "area") and name == "href":
                self.page.wishes.append((line, value, False))
            elif tag == "link" and name == "href":
                loaded = bool(LOADED_RELATIONS & set(found.get("rel", "").lower().split()))
                self.page.wishes.append((line, value, loaded))


def problems_of_links(site: Path) -> list[str]:
    """`page:line: text` for each link to nothing and each thing that another site would deliver."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site).as_posix()}:{line}: {text}"
        for path, page in pages.items()
        for line, text in _wrong(site, path, page, pages)
    ]


def _read(path: Path) -> _Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8", errors="replace"))
    return reader.page


def _wrong(
    site: Path, path: Path, page: _Page, pages: dict[Path, _Page]
) -> Iterator[tuple[int, str]]:
    for line, address, loaded in page.wishes:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if loaded and parts.scheme in ("", "http", "https"):
                yield line, f"loads {address}; a page loads nothing from another site"
            continue
        target = path
        if parts.path:
            inside = unquote(parts.path)
            target = site / inside.lstrip("/") if inside.startswith("/") else path.parent / inside
            target = target.resolve()
            if not target.is_relative_to(site.resolve()):
                yield line, f"leads to {address}, which is outside of the site"
                continue
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield line, f"leads to {address}, which is not there"
                continue
            target = site / target.relative_to(site.resolve())
        anchor = unquote(parts.fragment)
        if anchor and target in pages and not loaded and anchor not in pages[target].anchors:
            yield line, f"leads to {address}, but nothing there has the id {anchor}"
