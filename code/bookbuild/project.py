"""Read `_quarto.yml`: which chapters the book has, in which order, and how it wants to look.

Quarto knows hundreds of keys. This reads the ones that the book uses and refuses the rest, so that
no setting is ever silently without effect.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from string import ascii_uppercase
from typing import Any

from bookbuild.problems import BookError, Problem

CONFIG = "_quarto.yml"
FIRST_HEADING = re.compile(r"^# (.*)$", re.MULTILINE)
PROJECT_KEYS = {"type", "output-dir", "resources", "pre-render", "post-render"}
BOOK_KEYS = {
    "title", "subtitle", "author", "description", "chapters", "appendices", "repo-url", "site-url",
    "open-graph", "twitter-card",
}  # fmt: skip
TOP_KEYS = {
    "project", "book", "bibliography", "csl", "execute", "format", "lang", "filters",
    "link-citations",
}  # fmt: skip
HTML_KEYS = {
    "theme", "css", "fig-format", "fig-width", "fig-height", "fig-dpi", "code-copy", "toc",
    "html-math-method",
}  # fmt: skip
EXECUTE_KEYS = {"freeze"}
SOURCES = {"_freeze", "code", "chapters", "media", "tests"}
# Quarto's own for HTML, with SVG as this book has it: inches, and dots per inch.
FIGURE_DEFAULTS = {"fig-format": "svg", "fig-width": 7, "fig-height": 5, "fig-dpi": 96}


@dataclass(frozen=True)
class Chapter:
    """One page. `number` is "2" for a chapter, "A" for an appendix, None for neither."""

    path: str  # relative to the project, with forward slashes
    number: str | None = None
    part: str | None = None
    appendix: bool = False

    @property
    def name(self) -> str:
        """What the command line calls it: `masking` for `chapters/masking.qmd`."""
        return Path(self.path).stem

    @property
    def href(self) -> str:
        return f"{self.path.removesuffix('.qmd')}.html"


@dataclass(frozen=True)
class Project:
    root: Path
    title: str
    chapters: tuple[Chapter, ...]
    subtitle: str = ""
    author: tuple[str, ...] = ()
    description: str = ""
    lang: str = "en"
    repo_url: str = ""
    site_url: str = ""  # with a slash at its end, or nothing
    output_dir: str = "_book"
    bibliography: tuple[str, ...] = ()
    csl: str | None = None
    resources: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    execute: Mapping[str, Any] = field(default_factory=dict)
    html: Mapping[str, Any] = field(default_factory=dict)

    def source(self, chapter: Chapter) -> str:
        """Text of a chapter, with LF line endings, as Quarto hashes it."""
        return (self.root / chapter.path).read_text(encoding="utf-8-sig").replace("\r\n", "\n")

    def chapter(self, name: str) -> Chapter:
        """The chapter that a person calls `name`: its stem or its path."""
        for chapter in self.chapters:
            if name in (chapter.name, chapter.path):
                return chapter
        known = ", ".join(c.name for c in self.chapters)
        raise KeyError(f"no chapter is called {name!r}; there are: {known}")


def load_project(root: Path) -> Project:
    """The project in folder `root`. Raises BookError for what is missing or not understood."""
    import yaml  # here, since the hooks have the standard library only

    path = root / CONFIG
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BookError(
            Problem(CONFIG, 0, f"not found in {root}; give a book's folder with -C")
        ) from None
    except UnicodeDecodeError as error:
        raise BookError(Problem(CONFIG, 0, f"is not UTF-8: {error.reason}")) from None
    try:
        config = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        line = error.problem_mark.line + 1 if getattr(error, "problem_mark", None) else 0
        said = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise BookError(Problem(CONFIG, line, f"is not YAML: {said}")) from None
    problems = list(_unknown_keys(config, text)) or list(_wrong_values(config, text))
    if problems:
        raise BookError(problems)
    project, book = config["project"], config["book"]
    html = (config.get("format") or {}).get("html") or {}
    chapters = tuple(_chapters(root, book))
    problems = [
        Problem(CONFIG, _line(text, c.path), f"lists {c.path}, which does not exist")
        for c in chapters
        if not (root / c.path).is_file()
    ]
    called: set[str] = set()
    for chapter in chapters:
        if chapter.name in called:
            said = f"two chapters are called {chapter.name}; rename one"
            problems.append(Problem(CONFIG, _line(text, chapter.path), said))
        called.add(chapter.name)
    folders = {c.path.removesuffix(".qmd") for c in chapters}
    problems += [
        Problem(CONFIG, _line(text, c.path), f"{c.path} lies in the freeze of {folder}.qmd")
        for c in chapters
        for folder in map(str, PurePosixPath(c.path).parents)
        if folder in folders
    ]
    if problems:
        raise BookError(problems)
    return Project(
        root=root,
        title=str(book.get("title", "")),
        chapters=chapters,
        subtitle=str(book.get("subtitle", "")),
        author=_strings(book.get("author")),
        description=str(book.get("description", "")),
        lang=str(config.get("lang", "en")),
        repo_url=str(book.get("repo-url", "")).rstrip("/"),
        site_url=_with_slash(str(book.get("site-url", ""))),
        output_dir=str(project.get("output-dir", "_book")),
        bibliography=_strings(config.get("bibliography")),
        csl=config.get("csl"),
        resources=_strings(project.get("resources")),
        filters=_strings(config.get("filters")),
        execute=config.get("execute") or {},
        html=html,
    )


def _chapters(root: Path, book: Mapping[str, Any]) -> Iterator[Chapter]:
    """Chapters in reading order. As in Quarto, `# Title {.unnumbered}` is left out of the count."""
    count = 0
    for item in book["chapters"]:
        part, paths = (
            (str(item["part"]), item.get("chapters", []))
            if isinstance(item, Mapping)
            else (None, [item])
        )
        for path in paths:
            numbered = _is_numbered(root / path)
            count += numbered
            yield Chapter(path, str(count) if numbered else None, part)
    for letter, path in zip(ascii_uppercase, book.get("appendices") or [], strict=False):
        yield Chapter(path, letter, None, appendix=True)


def _is_numbered(path: Path) -> bool:
    if not path.is_file():
        return True
    first = FIRST_HEADING.search(path.read_text(encoding="utf-8-sig"))
    return not (first and re.search(r"\{[^}]*(\.unnumbered|(?<=[{ ])-(?=[ }]))", first.group(1)))


def _unknown_keys(config: Any, text: str) -> Iterator[Problem]:
    if not isinstance(config, Mapping):
        yield Problem(CONFIG, 1, "must be a mapping with the keys project and book")
        return
    formats = config.get("format") or {}
    sections = [
        ("", config, TOP_KEYS),
        ("project.", config.get("project") or {}, PROJECT_KEYS),
        ("book.", config.get("book") or {}, BOOK_KEYS),
        ("execute.", config.get("execute") or {}, EXECUTE_KEYS),
        ("format.", formats, {"html"}),
        (
            "format.html.",
            formats.get("html") or {} if isinstance(formats, Mapping) else {},
            HTML_KEYS,
        ),
    ]
    for prefix, section, known in sections:
        if not isinstance(section, Mapping):
            yield Problem(CONFIG, 1, f"{prefix.rstrip('.')} must be a mapping")
            continue
        for key in section:
            if key not in known:
                yield Problem(
                    CONFIG,
                    _line(text, f"{key}:"),
                    f"{prefix}{key} is not known to this build; known: {', '.join(sorted(known))}",
                )
    project = config.get("project")
    if not isinstance(project, Mapping) or project.get("type") != "book":
        yield Problem(CONFIG, _line(text, "type:"), "project.type must be book")


def _wrong_values(config: Mapping[str, Any], text: str) -> Iterator[Problem]:
    """What is under known keys, but cannot be used."""
    book = config.get("book") or {}
    if not book.get("chapters"):
        yield Problem(CONFIG, _line(text, "book:"), "book.chapters must list the chapters")
    for key in ("chapters", "appendices"):
        items = book.get(key) or []
        if not isinstance(items, list):
            yield Problem(CONFIG, _line(text, f"{key}:"), f"book.{key} must be a list")
            continue
        for path in _paths(items):
            if not isinstance(path, str) or not path.endswith(".qmd"):
                yield Problem(
                    CONFIG,
                    _line(text, f"{key}:"),
                    f"book.{key} lists {path!r}; it takes .qmd files, and parts with part: "
                    "and chapters:",
                )
            elif not _is_inside(path):
                yield Problem(
                    CONFIG, _line(text, path), f"{path} must be relative to the project, without .."
                )
    output = config["project"].get("output-dir", "_book")
    if not isinstance(output, str) or not _is_inside(output) or _is_taken(output):
        yield Problem(
            CONFIG,
            _line(text, "output-dir:"),
            f"output-dir must be a folder of its own, got {output}",
        )
    freeze = (config.get("execute") or {}).get("freeze", "auto")
    if freeze != "auto":
        yield Problem(CONFIG, _line(text, "freeze:"), f"execute.freeze must be auto, got {freeze}")
    for key in ("site-url", "repo-url"):
        address = book.get(key)
        if address is not None and not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", str(address)):
            said = f"book.{key} must be an address such as https://example.org/book/, got {address}"
            yield Problem(CONFIG, _line(text, f"{key}:"), said)
    for key in ("open-graph", "twitter-card"):
        # Quarto's own pages need these keys; ours carry such tags anyway.
        if book.get(key, True) is not True:
            line = _line(text, f"{key}:")
            yield Problem(CONFIG, line, f"book.{key} can only be true, got {book[key]}")


def _with_slash(address: str) -> str:
    return f"{address.rstrip('/')}/" if address else ""


def _paths(items: list[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, Mapping) and set(item) == {"part", "chapters"}:
            yield from item["chapters"] if isinstance(item["chapters"], list) else [item]
        else:
            yield item


def _is_taken(output: str) -> bool:
    first = PurePosixPath(output).parts[0]
    return first in SOURCES or first.startswith(".")


def _is_inside(path: str) -> bool:
    """Whether `path` is written as a path below the project, in the one way it can be."""
    pure = PurePosixPath(path)
    return (
        bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and str(pure) == path
    )


def _line(text: str, needle: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if needle in line:
            return number
    return 0


def _strings(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
