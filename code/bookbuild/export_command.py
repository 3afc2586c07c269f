"""Make the printed book or the EPUB from what is frozen, and put it where it belongs."""

from pathlib import Path

from bookbuild import build as building
from bookbuild import freeze as freezing
from bookbuild.export_book import file_name, join, keep, make, write
from bookbuild.export_page import prepare
from bookbuild.placing import WORK
from bookbuild.problems import BookError, Problem
from bookbuild.project import Project


def export(project: Project, kind: str, *, jobs: int, output: Path | None = None) -> Path:
    """The file that was made. Raises BookError for a stale freeze, and what pandoc or Typst refuse.

    Args:
        kind: `pdf` or `epub`.
        output: where it goes; else into the site, whose pages then offer it.

    Whatever fails leaves the file of before.
    """
    if output and (output.is_dir() or not output.parent.is_dir()):
        text = f"-o {output} must name a file in a folder that exists"
        raise BookError(Problem(str(output), 0, text))
    now = building.plan(project)
    if now.stale:
        raise BookError(
            [Problem(v.source.path, 0, f"is stale: {v.reason}; run book build") for v in now.stale]
        )
    # The site first: it is what the file is a copy of, with all its checks, and pandoc's work on
    # its pages is kept.
    building.build(project, jobs=jobs, execute=False)
    whole, cache = joined(project, jobs)
    content = make(whole, kind, cache)
    if output:
        write(output, content)
        return output
    keep(whole, kind, content)
    building.build(project, jobs=jobs, execute=False)
    return project.root / project.output_dir / file_name(project, kind)


def joined(project: Project, jobs: int):
    """The whole book from the freeze, and the folder that keeps its parts."""
    from bookbuild.render import book_of

    root = project.root
    plan = building.plan(project)
    frozen = {v.source.path: v.frozen for v in plan.verdicts if v.frozen}
    markdown = building.markdown_of(plan, frozen)
    freeze = root / freezing.FREEZE
    pages_cache = root / WORK / "pages"
    book = book_of(project, markdown, freeze, pages_cache, jobs)
    cache = pages_cache.with_name("copies")
    pages = prepare(book, markdown, freeze, cache, jobs, project.site_url)
    figures = {path: root / freezing.folder_of(path) / freezing.FIGURES for path in frozen}
    return join(book, pages, figures), cache
