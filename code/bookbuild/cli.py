"""The command `book`. Answers go to stdout, progress to stderr. No logic: parse, call, print."""

import json
import signal
import sys
import time
from pathlib import Path

import click

from bookbuild import build as building
from bookbuild.cli_backends import backends_command
from bookbuild.cli_bench import bench_command
from bookbuild.cli_machines import merge_command, plan_command, run_command
from bookbuild.cli_shared import (
    Progress,
    chapters_argument,
    count,
    directory,
    jobs_option,
    json_option,
    known,
    open_project,
    tell_comparisons,
    tell_error,
    timeout_option,
    told,
)
from bookbuild.cli_watch import watch
from bookbuild.placing import WORK


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Build a book whose every number is recomputed, and refuse one that drifted."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(*_):
    raise KeyboardInterrupt


for command in (plan_command, run_command, merge_command, watch, backends_command, bench_command):
    main.add_command(command)


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
    with told():
        path = export(open_project(folder), kind, jobs=jobs, output=output)
    size = path.stat().st_size / 1e6
    click.echo(f"{path}, {size:.1f} MB in {time.monotonic() - started:.1f} s")


def _build(folder: Path, as_json: bool, **options) -> None:
    started = time.monotonic()
    with told():
        project = open_project(folder)
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
            parts.append(f"{len(report.rendered)} of {count(report.pages, 'page')} rendered")
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

    with told():
        project = open_project(folder)
        (project.root / WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        found = run(plan, jobs=jobs, timeout=timeout, listener=Progress(project, as_json))
    totals = summary(found)
    tell_comparisons(found, totals, as_json)


@main.command("verify-matrix")
@directory
@jobs_option
@timeout_option
def verify_matrix(folder, jobs, timeout):
    """Recompute every number in other environments; write how far each one strays."""
    from bookbuild import matrix

    with told():
        project = open_project(folder)
        (project.root / WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        found = matrix.verify_matrix(plan, jobs=jobs, timeout=timeout, told=tell_error)
    for line in matrix.differing(found):
        tell_error(line)
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

    with told():
        project = open_project(folder)
        (project.root / WORK).mkdir(exist_ok=True)
        if entries:
            found, said = mutate_command.entries(project)
        elif check:
            found, said = mutate_command.check(project)
        else:
            found, said = mutate_command.run(
                project, jobs=jobs, sample=sample, seed=seed, only=only, told=tell_error
            )
    for problem in found:
        tell_error(problem)
    click.echo(said)
    sys.exit(1 if found else 0)


@main.command()
@directory
@json_option
def doctor(folder, as_json):
    """Say what is missing or odd on this machine, and what to do. Changes nothing."""
    from bookbuild import doctor as examining

    sys.exit(examining.main(folder.resolve(), as_json))


@main.command("check-site")
@directory
@click.argument(
    "site", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
def check_site(folder, site):
    """Compare every number on rendered pages, ours or Quarto's, with the ledger; try links."""
    from bookbuild.claims_check import count_claims, problems_of_site
    from bookbuild.site_links import problems_of_links

    with told():
        project = open_project(folder)
        site = site or project.root / project.output_dir
        found = problems_of_site(project.root, site) + problems_of_links(site)
        claims, pages = count_claims(site)
    for problem in found:
        click.echo(problem, err=True)
    what = f"{count(claims, 'verified number')} on {count(pages, 'page')}"
    click.echo(f"{what}: {count(len(found), 'problem') if found else 'all as the ledger says'}")
    sys.exit(1 if found else 0)


@main.command()
@directory
@json_option
def stale(folder, as_json):
    """Say which chapters are stale, and why. Executes nothing."""
    with told():
        project = open_project(folder)
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

    with told():
        click.echo(move(open_project(folder).root, id, reason))


@main.command()
@directory
@jobs_option
@click.option("--port", default=4848, show_default=True, help="Port on the loopback interface.")
def serve(folder, jobs, port):
    """Show the site on this machine, and rebuild it on every save."""
    from bookbuild.serve import serve as run

    with told():
        run(open_project(folder), jobs=jobs, port=port, say=click.echo)
