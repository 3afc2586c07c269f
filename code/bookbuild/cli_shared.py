"""What the commands of `book` share: options, progress, and how what is wrong is told."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bookbuild import build as building
from bookbuild.drifts import REPORT
from bookbuild.problems import BookError
from bookbuild.project import Project, load_project
from bookbuild.run import Failure, Run
from bookbuild.stale import Verdict


class Progress(building.Listener):
    """One line a chapter, when it is done."""

    def __init__(self, project: Project, quiet: bool):
        self.width = max(len(chapter.name) for chapter in project.chapters) + 2
        self.quiet = quiet

    def line(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)

    def executing(self, verdicts: Sequence[Verdict], jobs: int) -> None:
        names = count(len(verdicts), "chapter")
        self.line(f"executing {names}, {min(jobs, len(verdicts))} at a time")

    def finished(self, result: Run | Failure, reason: str) -> None:
        name = Path(result.source.path).stem.ljust(self.width)
        what = "ran" if isinstance(result, Run) else "FAILED"
        self.line(f"{name}{what} {result.seconds:.0f} s".ljust(self.width + 14) + reason)

    def rendering(self) -> None:
        pass


directory = click.option(
    "-C", "folder", default=".", type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the book: the one with _quarto.yml.",
)  # fmt: skip
jobs_option = click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="all cores",
    type=click.IntRange(1), help="Chapters at a time.",
)  # fmt: skip
timeout_option = click.option(
    "--timeout", default=600.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Seconds that one cell may take.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
chapters_argument = click.argument("chapters", nargs=-1)


def tell_comparisons(found, totals, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**totals, "differences": {c.chapter: c.problems for c in found}}))
    else:
        for one in found:
            for problem in one.problems:
                click.echo(f"{one.chapter}: {problem}", err=True)
        click.echo(
            f"{totals['numbers']} numbers of {count(totals['chapters'], 'chapter')} recomputed, "
            f"all inside their tolerances; {totals['identical']} of {totals['chapters']} chapters "
            "identical to the freeze, byte for byte"
        )
    sys.exit(1 if totals["problems"] else 0)


def tell_error(text: str) -> None:
    click.echo(text, err=True)


def known(project: Project, names: Sequence[str]) -> None:
    for name in names:
        try:
            project.chapter(name)
        except KeyError as error:
            raise click.UsageError(error.args[0]) from None


def open_project(folder: Path) -> Project:
    return load_project(folder.resolve())


class told:
    """Turn what is wrong with the book into messages and exit code 1; nothing else is caught."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, building.ChaptersFailed):
            click.echo(
                f"{error.ran} ran, {error.fresh} fresh, {len(error.failures)} failed; "
                "_book and _freeze are still those of the last good build",
                err=True,
            )
            if error.moved:
                click.echo(
                    f"{error.moved} of {error.moved + error.held} recomputed numbers moved, "
                    f"{error.held} did not; {REPORT} lists both",
                    err=True,
                )
        if isinstance(error, BookError):
            click.echo(text_of(error), err=True)
            sys.exit(1)
        if isinstance(error, KeyboardInterrupt):
            click.echo(
                "stopped; _book and _freeze are still those of the last good build", err=True
            )
            sys.exit(130)
        if isinstance(error, OSError):
            said = f"{error.filename}: {error.strerror}" if error.filename else error
            click.echo(
                f"{said}; _book and _freeze are still those of the last good build", err=True
            )
            sys.exit(1)
        return False


def text_of(error: BookError, whole: int = 5) -> str:
    """All problems; of more than a few, the later ones by their first line only."""
    texts = [str(problem) for problem in error.problems]
    short = [text.partition("\n")[0] for text in texts[whole:]]
    return "\n".join([*texts[:whole], *short])


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
