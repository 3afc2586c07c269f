"""The files of the site besides its pages: figures, images, style sheets, the site's own assets."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from bookbuild.pages import find_line
from bookbuild.problems import Problem
from bookbuild.project import CONFIG, Chapter, Project
from bookbuild.render_links import Book, path_of

ASSETS = ("site",)


def collect_files(
    book: Book, figures: Mapping[str, Path], media: Path
) -> tuple[dict[str, Path], list[Problem]]:
    """Path in the site -> the file to be copied there; and what is missing."""
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for name in ASSETS:
        folder = media / name
        if folder.is_dir():
            files.update({f"media/{name}/{path}": folder / path for path in files_below(folder)})
        else:
            text = "is missing beside the code of this build; every page needs it"
            problems.append(Problem(f"media/{name}", 0, text))
    files.update(_configured_files(book.project, files, problems))
    for chapter in book.project.chapters:
        for source in dict.fromkeys(book.fragments[chapter.path].sources):
            found = find_image(book.project, chapter, source, figures.get(chapter.path))
            if isinstance(found, str):
                line = find_line(book.project.source(chapter), *_spellings(source))
                problems.append(Problem(chapter.path, line, f"the image {source} {found}"))
            elif found:
                files[found[0]] = found[1]
    return files, problems


def _configured_files(
    project: Project, assets: Mapping[str, Path], problems: list[Problem]
) -> Iterator[tuple[str, Path]]:
    """The `resources` and style sheets of `_quarto.yml`."""
    config = (project.root / CONFIG).read_text(encoding="utf-8")
    for pattern in [*project.resources, *style_sheets(project)]:
        found = list(_matching(project.root, pattern))
        if not found and not any(path.startswith(f"{pattern.rstrip('/')}/") for path in assets):
            problems.append(Problem(CONFIG, find_line(config, pattern), f"{pattern} is not there"))
        yield from ((path, project.root / path) for path in found)


def _matching(root: Path, pattern: str) -> Iterator[str]:
    for path in sorted(root.glob(pattern)):
        base = path.relative_to(root).as_posix()
        if path.is_dir():
            yield from (f"{base}/{name}" for name in files_below(path))
        else:
            yield base


def files_below(folder: Path) -> Iterator[str]:
    """Relative paths of all files below a folder, sorted, without hidden ones."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield relative.as_posix()


def style_sheets(project: Project) -> list[str]:
    listed = project.html.get("css") or []
    return [listed] if isinstance(listed, str) else list(listed)


def find_image(
    project: Project, chapter: Chapter, source: str, figures: Path | None
) -> tuple[str, Path] | str | None:
    """Path of an image in the site and its file; or what is wrong; or None for an embedded one."""
    parts = urlsplit(source)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is no file of this book, and a page loads nothing from elsewhere"
    path = path_of(chapter, parts.path)
    if path.startswith("../"):
        return "lies outside the project"
    frozen = f"{chapter.path.removesuffix('.qmd')}_files/figure-html/"
    if path.startswith(frozen):
        file = figures / path.removeprefix(frozen) if figures else None
        if file is None or not file.is_file():
            return "is not among the frozen figures; execute the chapter again"
        return path, file
    file = project.root / path
    return (path, file) if file.is_file() else "is not there"


def _spellings(source: str) -> tuple[str, ...]:
    """How a chapter may name an image: by its path, or by the label of the cell that draws it."""
    name = PurePosixPath(urlsplit(source).path).name
    cell = re.sub(r"-output-\d+\.\w+$", "", name)
    return source, name, f"#| label: {cell}"
