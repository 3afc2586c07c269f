"""A page as pandoc made it, before it knows the other pages; and the cache that keeps it."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path

from bookbuild.render_formulas import set_formulas

INDEX = re.compile(r'\n?<script type="application/json" id="book-index">(.*?)</script>', re.DOTALL)
SHOWN = {"title", "references", "html"}  # of the index: pieces of HTML


@dataclass(frozen=True)
class Heading:
    """A section of a page. `listed`: whether the table of contents shows it."""

    id: str
    level: int
    number: str
    html: str
    listed: bool


@dataclass(frozen=True)
class Label:
    """What a cross reference can name: `Figure` and `2.1` for `fig-line`."""

    label: str
    prefix: str
    number: str


@dataclass(frozen=True)
class Fragment:
    """A page without its surroundings. Its HTML holds the marks that `references.lua` left."""

    body: str
    title: str  # HTML
    text: str  # the same without markup
    id: str  # the title's label, or ""
    description: str
    toc: bool
    headings: tuple[Heading, ...]
    labels: tuple[Label, ...]
    citations: tuple[str, ...]
    missing: tuple[str, ...]  # citations without an entry in the bibliography
    references: str  # this page's bibliography; "" when it has none, or shows it in its body
    ids: tuple[str, ...]  # in order, repeated ones too
    hrefs: tuple[str, ...]
    sources: tuple[str, ...]
    has_math: bool


def parse_fragment(html: str) -> Fragment:
    """Pandoc's output -> the fragment. The index that `finish.lua` appended leaves the body."""
    found = INDEX.search(html)
    if not found:
        raise ValueError("pandoc's output has no index; finish.lua did not run")
    index = json.loads(found.group(1))
    body = set_formulas(html[: found.start()] + html[found.end() :]).strip() + "\n"
    for part in (index, *index["headings"]):
        part.update({key: set_formulas(part[key]) for key in SHOWN & part.keys()})
    scan = _Scan()
    scan.feed(index["title"])
    scan.feed(body)
    scan.close()
    return Fragment(
        body=body,
        headings=tuple(Heading(**item) for item in index.pop("headings")),
        labels=tuple(Label(**item) for item in index.pop("labels")),
        citations=tuple(index.pop("citations")),
        missing=tuple(index.pop("missing")),
        ids=tuple(scan.ids),
        hrefs=tuple(scan.hrefs),
        sources=tuple(scan.sources),
        has_math=scan.has_math,
        **index,
    )


class _Scan(HTMLParser):
    """Which ids, links and images a piece of HTML has."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.sources: list[str] = []
        self.has_math = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            elif name == "href" and tag == "a":
                self.hrefs.append(value or "")
            elif name in ("src", "poster") or (name == "data" and tag == "object"):
                self.sources.append(value or "")
            elif name == "class" and "math" in (value or "").split():
                self.has_math = True

    handle_startendtag = handle_starttag


def load_fragment(cache: Path, key: str) -> Fragment | None:
    """The kept fragment, or None where there is none or its file is damaged."""
    try:
        text = (cache / f"{key}.json").read_text(encoding="utf-8")
        digest, _, content = text.partition("\n")
        if digest != _sha256(content):
            return None
        data = json.loads(content)
        data["headings"] = tuple(Heading(**item) for item in data["headings"])
        data["labels"] = tuple(Label(**item) for item in data["labels"])
        for name in ("citations", "missing", "ids", "hrefs", "sources"):
            data[name] = tuple(data[name])
        return Fragment(**data)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_fragment(cache: Path, key: str, fragment: Fragment) -> None:
    """Keep a fragment, under a first line with the hash of what follows."""
    cache.mkdir(parents=True, exist_ok=True)
    content = json.dumps(asdict(fragment), ensure_ascii=False)
    beside = cache / f"{key}.{os.getpid()}.new"
    beside.write_text(f"{_sha256(content)}\n{content}", encoding="utf-8", newline="\n")
    beside.replace(cache / f"{key}.json")


def forget_fragments(cache: Path, keep: Iterable[str]) -> None:
    """Remove the fragments that a finished build did not use."""
    kept = {f"{key}.json" for key in keep}
    for path in cache.glob("*.json"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
