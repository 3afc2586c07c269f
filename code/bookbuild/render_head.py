"""What a page adds to its <head>: `include-in-header` of its front matter, a file, as in Quarto.

The file is HTML that loads scripts or style sheets of the site. Its paths are as the page sees
them, because Quarto puts the text in unchanged.
"""

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

from bookbuild.pages import find_line, front_matter
from bookbuild.problems import Problem
from bookbuild.project import Chapter, Project
from bookbuild.render_links import path_of

KEY = "include-in-header"


def head_of(project: Project, chapter: Chapter) -> str:
    """The text for the page's head, or nothing. `check_heads` has found the file to be there."""
    name = front_matter(project.source(chapter)).get(KEY)
    if name is None:
        return ""
    return (project.root / path_of(chapter, name)).read_text(encoding="utf-8").strip()


def check_heads(project: Project, files: Mapping[str, Path]) -> Iterator[Problem]:
    """Included files that are not there, or load what is no file of the site."""
    for chapter in project.chapters:
        source = project.source(chapter)
        name = front_matter(source).get(KEY)
        if name is None:
            continue
        line = find_line(source, f"{KEY}:")
        if not isinstance(name, str):
            yield Problem(chapter.path, line, f"{KEY} takes the path of one file, got {name!r}")
        elif not (project.root / path_of(chapter, name)).is_file():
            yield Problem(chapter.path, line, f"{KEY} names {name}, which is not there")
        else:
            for text in _wrong(chapter, head_of(project, chapter), files):
                yield Problem(path_of(chapter, name), 0, text)


def _wrong(chapter: Chapter, html: str, files: Mapping[str, Path]) -> Iterator[str]:
    scan = _Loads()
    scan.feed(html)
    scan.close()
    for address in scan.addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or path_of(chapter, parts.path) not in files:
            yield f"loads {address}, which is no file of this site"
    if scan.inline:
        yield "holds a script or style of its own; load a file of the site instead"


class _Loads(HTMLParser):
    """What a piece of HTML loads, and whether it carries code itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = [value or "" for name, value in attrs if name in ("href", "src")]
        self.addresses += found
        self.inline |= tag == "style" or (tag == "script" and not found)
