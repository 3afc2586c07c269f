"""The command `book`. Answers go to stdout, progress to stderr. No logic: parse, call, print."""

import json
import os
import signal
import sys
import time
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
        names = _count(len(verdicts), "chapter")
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Build a book whose every number is recomputed, and refuse one that drifted."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(*_):
    raise KeyboardInterrupt


@main.command()
@directory
@jobs_option
@timeout_option
@json_option
@click.option("--fresh", is_flag=True, help="Execute from nothing, whatever the freeze says.")
@chapters_argument
def build(folder, jobs, timeout, as_json, fresh, chapters):
    """Execute what is stale, freeze, render, check, and put the site in place."""
    _build(folder, as_json, jobs=jobs, timeout=timeout, fresh=fresh, only=chapters)


@main.command()
@directory
@jobs_option
@timeout_option
@json_option
@click.option("--fresh", is_flag=True, help="Execute from nothing, whatever the freeze says.")
@chapters_argument
def execute(folder, jobs, timeout, as_json, fresh, chapters):
    """Execute what is stale and freeze it; render nothing."""
    _build(folder, as_json, jobs=jobs, timeout=timeout, fresh=fresh, only=chapters, render=False)


@main.command()
@directory
@jobs_option
@json_option
def render(folder, jobs, as_json):
    """Render the site from a fresh freeze; execute nothing."""
    _build(folder, as_json, jobs=jobs, execute=False)


output_option = click.option(
    "-o", "output", type=click.Path(dir_okay=False, path_type=Path),
    help="Where the file goes; by default into the site, which then offers it.",
)  # fmt: skip


@main.command()
@directory
@jobs_option
@output_option
def pdf(folder, jobs, output):
    """Set the whole book as PDF, from a fresh freeze; execute nothing."""
    _export(folder, "pdf", jobs, output)


@main.command()
@directory
@jobs_option
@output_option
def epub(folder, jobs, output):
    """Pack the whole book as EPUB, from a fresh freeze; execute nothing."""
    _export(folder, "epub", jobs, output)


def _export(folder: Path, kind: str, jobs: int, output: Path | None) -> None:
    from bookbuild.export_command import export

    started = time.monotonic()
    with _told():
        path = export(_project(folder), kind, jobs=jobs, output=output)
    size = path.stat().st_size / 1e6
    click.echo(f"{path}, {size:.1f} MB in {time.monotonic() - started:.1f} s")


def _build(folder: Path, as_json: bool, **options) -> None:
    started = time.monotonic()
    with _told():
        project = _project(folder)
        known(project, options.get("only", ()))
        report = building.build(project, listener=Progress(project, as_json), **options)
    seconds = time.monotonic() - started
    first = folder / project.output_dir / "index.html"
    if as_json:
        click.echo(json.dumps({**vars(report), "seconds": round(seconds, 2), "site": str(first)}))
    elif report.up_to_date:
        click.echo(f"nothing changed; {first}")
    else:
        parts = [f"{len(report.ran)} ran"] if report.ran else ["nothing to execute"]
        if report.woven:
            parts.append(f"{len(report.woven)} rewoven")
        if options.get("render", True):
            parts.append(f"{len(report.rendered)} of {_count(report.pages, 'page')} rendered")
        click.echo(f"{', '.join(parts)} in {seconds:.1f} s")
        if options.get("render", True):
            click.echo(f"open {first}")


@main.command()
@directory
@jobs_option
@timeout_option
@json_option
def verify(folder, jobs, timeout, as_json):
    """Execute everything from nothing beside the committed freeze, and compare."""
    from bookbuild.verify import summary
    from bookbuild.verify import verify as run

    with _told():
        project = _project(folder)
        (project.root / building.WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        found = run(plan, jobs=jobs, timeout=timeout, listener=Progress(project, as_json))
    totals = summary(found)
    _tell_comparisons(found, totals, as_json)


def _tell_comparisons(found, totals, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**totals, "differences": {c.chapter: c.problems for c in found}}))
    else:
        for one in found:
            for problem in one.problems:
                click.echo(f"{one.chapter}: {problem}", err=True)
        click.echo(
            f"{totals['numbers']} numbers of {_count(totals['chapters'], 'chapter')} recomputed, "
            f"all inside their tolerances; {totals['identical']} of {totals['chapters']} chapters "
            "identical to the freeze, byte for byte"
        )
    sys.exit(1 if totals["problems"] else 0)


@main.command("plan")
@directory
@json_option
@click.option("--stale", "only_stale", is_flag=True, help="Leave out what the freeze still holds.")
@click.option(
    "--machines", default=256, show_default=True, type=click.IntRange(1, 256),
    help="At most so many parts; more chapters share one.",
)  # fmt: skip
def plan_command(folder, as_json, only_stale, machines):
    """Say what several machines would do, each its part: see run and merge."""
    from bookbuild.plan import divide, matrix

    with _told():
        parts = divide(building.plan(_project(folder)).verdicts, machines, only_stale)
    if as_json:
        click.echo(json.dumps(matrix(parts)))
    else:
        for part in parts:
            click.echo(f"book run {' '.join(f'--only {name}' for name in part.names)} --to FOLDER")
        click.echo("book merge FOLDER…" if parts else "nothing to run: the freeze holds")


@main.command("run")
@directory
@jobs_option
@timeout_option
@click.option(
    "--only",
    "names",
    multiple=True,
    required=True,
    metavar="CHAPTER",
    help="Execute this chapter; may be repeated.",
)
@click.option(
    "--to",
    default="results",
    show_default=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the results go.",
)
def run_command(folder, jobs, timeout, names, to):  # fmt: skip
    """Execute a part of the plan from nothing, and write its results for merge."""
    from bookbuild.plan_run import run
    from bookbuild.run import Failure

    with _told():
        project = _project(folder)
        known(project, names)
        (project.root / building.WORK).mkdir(exist_ok=True)
        results = run(
            building.plan(project), names, to,
            jobs=jobs, timeout=timeout, listener=Progress(project, quiet=False),
        )  # fmt: skip
    failures = [result for result in results if isinstance(result, Failure)]
    for failure in failures:
        for problem in failure.problems:
            _err(str(problem))
    click.echo(f"{_count(len(results), 'result')} in {to}: give it to book merge")
    sys.exit(1 if failures else 0)


@main.command("merge")
@directory
@json_option
@click.option("--compare", is_flag=True, help="Compare with the committed freeze; change nothing.")
@click.option("--partial", is_flag=True, help="Keep the freeze of chapters that were not run.")
@click.argument(
    "results",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
def merge_command(folder, as_json, compare, partial, results):  # fmt: skip
    """Put the results of several machines together, if nothing is wrong with any."""
    from bookbuild import merge as merging
    from bookbuild.verify import summary

    if compare and partial:
        raise click.UsageError("--compare is of the whole book; leave out --partial")
    with _told():
        project = _project(folder)
        (project.root / building.WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        if compare:
            found = merging.compare(plan, results)
            _tell_comparisons(found, summary(found), as_json)
        made = merging.merge(plan, results, partial=partial)
    if as_json:
        click.echo(json.dumps({"merged": sorted(made)}))
    else:
        numbers = sum(len(one.numbers["numbers"]) for one in made.values())
        click.echo(f"{_count(len(made), 'chapter')} with {_count(numbers, 'number')} in _freeze")


@main.command("verify-matrix")
@directory
@jobs_option
@timeout_option
def verify_matrix(folder, jobs, timeout):
    """Recompute every number in other environments; write how far each one strays."""
    from bookbuild import matrix

    with _told():
        project = _project(folder)
        (project.root / building.WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        found = matrix.verify_matrix(plan, jobs=jobs, timeout=timeout, told=_err)
    for line in matrix.differing(found):
        _err(line)
    click.echo(matrix.summary(found))
    sys.exit(1 if matrix.differing(found) or found["missing"] else 0)


@main.command()
@directory
@jobs_option
@click.option("--sample", type=click.IntRange(1), help="Try only so many faults, drawn by --seed.")
@click.option("--seed", default=0, show_default=True, help="Of the sample.")
@click.option("--only", multiple=True, metavar="ID", help="Try only this fault; may be repeated.")
@click.option("--entries", is_flag=True, help="Only move expected values; execute nothing.")
@click.option("--check", is_flag=True, help="Only say what the last results lack; execute nothing.")
def mutate(folder, jobs, sample, seed, only, entries, check):
    """Break the package in many small ways, and see whether the book's numbers notice."""
    from bookbuild import mutate_command

    with _told():
        project = _project(folder)
        (project.root / building.WORK).mkdir(exist_ok=True)
        if entries:
            found, said = mutate_command.entries(project)
        elif check:
            found, said = mutate_command.check(project)
        else:
            found, said = mutate_command.run(
                project, jobs=jobs, sample=sample, seed=seed, only=only, told=_err
            )
    for problem in found:
        _err(problem)
    click.echo(said)
    sys.exit(1 if found else 0)


def _err(text: str) -> None:
    click.echo(text, err=True)


@main.command()
@directory
@json_option
def doctor(folder, as_json):
    """Say what is missing or odd on this machine, and what to do. Changes nothing."""
    from bookbuild import doctor as examining

    sys.exit(examining.main(folder.resolve(), as_json))


@main.group()
def watch() -> None:
    """Look for what no longer holds in the world outside: newer libraries, links that died."""


@watch.command("numbers")
@directory
@jobs_option
@timeout_option
@click.option("--name", required=True, help="What to call the environment in the report.")
@click.option(
    "--python", required=True, metavar="PROGRAM",
    help="The interpreter of the environment with the newer libraries.",
)  # fmt: skip
@click.option(
    "--locked", default=sys.executable, show_default="this one", metavar="PROGRAM",
    help="The interpreter of the environment made from the lock.",
)  # fmt: skip
@click.option("--to", required=True, type=click.Path(dir_okay=False, path_type=Path))
def watch_numbers(folder, jobs, timeout, name, python, locked, to):
    """Recompute every number there, and find which library moved those that moved."""
    from bookbuild.watch import numbers

    with _told():
        plan = building.plan(_project(folder))
        found = numbers(
            plan, name, python, jobs=jobs, timeout=timeout, locked=locked, told=_err
        )  # fmt: skip
        _write_json(to, found)
    click.echo(
        f"{name}: {len(found['moved'])} of {_count(found['computed'], 'number')} moved, "
        f"{_count(len(found['raised']), 'failure')}; {to}"
    )


@watch.command("links")
@directory
@click.option("--to", required=True, type=click.Path(dir_okay=False, path_type=Path))
def watch_links(folder, to):
    """Follow every link that leads out of the built site."""
    from bookbuild.watch_links import collect, follow

    with _told():
        project = _project(folder)
        found = follow(collect(project.root, project.root / project.output_dir))
        _write_json(to, found)
    click.echo(f"{_count(found['links'], 'link')}, {len(found['gone'])} gone; {to}")


@watch.command("report")
@click.option("--to", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--links", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--missing", multiple=True, metavar="NAME", help="What has no result; may be repeated."
)
@click.argument("numbers", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def watch_report(to, links, missing, numbers):
    """Put reports together as the Markdown of one issue. Exit 1 if there is something to do."""
    from bookbuild.watch_report import is_well, report

    with _told():
        read = [json.loads(path.read_text(encoding="utf-8")) for path in numbers]
        followed = json.loads(links.read_text(encoding="utf-8")) if links else None
        to.write_text(report(read, followed, missing), encoding="utf-8")
    sys.exit(0 if is_well(read, followed, missing) else 1)


def _write_json(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


@main.command("check-site")
@directory
@click.argument(
    "site", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
def check_site(folder, site):
    """Compare every number on rendered pages, ours or Quarto's, with the ledger; try links."""
    from bookbuild.claims_check import count_claims, problems_of_site
    from bookbuild.site_links import problems_of_links

    with _told():
        project = _project(folder)
        site = site or project.root / project.output_dir
        found = problems_of_site(project.root, site) + problems_of_links(site)
        claims, pages = count_claims(site)
    for problem in found:
        click.echo(problem, err=True)
    what = f"{_count(claims, 'verified number')} on {_count(pages, 'page')}"
    click.echo(f"{what}: {_count(len(found), 'problem') if found else 'all as the ledger says'}")
    sys.exit(1 if found else 0)


@main.command()
@directory
@json_option
def stale(folder, as_json):
    """Say which chapters are stale, and why. Executes nothing."""
    with _told():
        project = _project(folder)
        plan = building.plan(project)
    if as_json:
        click.echo(json.dumps({v.source.path: [v.state, v.reason] for v in plan.verdicts}))
    else:
        width = max(len(chapter.name) for chapter in project.chapters) + 2
        words = {"plain": "no code", "prose": "rewoven"}
        for verdict in plan.verdicts:
            name = Path(verdict.source.path).stem.ljust(width)
            state = words.get(verdict.state, verdict.state)
            click.echo(f"{name}{state.ljust(9)}{verdict.reason}".rstrip())
    sys.exit(1 if plan.stale else 0)


@main.command()
@directory
@click.argument("id")
@click.option("--reason", required=True, help="Why the new value is right, for the ledger.")
def accept(folder, id, reason):
    """Move one expected value to the one that the last build computed."""
    from bookbuild.accept import accept as move

    with _told():
        click.echo(move(_project(folder).root, id, reason))


@main.command()
@directory
@jobs_option
@click.option("--port", default=4848, show_default=True, help="Port on the loopback interface.")
def serve(folder, jobs, port):
    """Show the site on this machine, and rebuild it on every save."""
    from bookbuild.serve import serve as run

    with _told():
        run(_project(folder), jobs=jobs, port=port, say=click.echo)


def known(project: Project, names: Sequence[str]) -> None:
    for name in names:
        try:
            project.chapter(name)
        except KeyError as error:
            raise click.UsageError(error.args[0]) from None


def _project(folder: Path) -> Project:
    return load_project(folder.resolve())


class _told:
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
            click.echo(_problems(error), err=True)
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


def _problems(error: BookError, whole: int = 5) -> str:
    """All problems; of more than a few, the later ones by their first line only."""
    texts = [str(problem) for problem in error.problems]
    short = [text.partition("\n")[0] for text in texts[whole:]]
    return "\n".join([*texts[:whole], *short])


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
