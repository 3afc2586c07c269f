"""`book plan`, `run` and `merge`: the execution of a book divided among several machines."""

import json
import sys
from pathlib import Path

import click

from bookbuild import build as building
from bookbuild.cli_shared import (
    Progress,
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
from bookbuild.placing import WORK


@click.command("plan")
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

    with told():
        parts = divide(building.plan(open_project(folder)).verdicts, machines, only_stale)
    if as_json:
        click.echo(json.dumps(matrix(parts)))
    else:
        for part in parts:
            click.echo(f"book run {' '.join(f'--only {name}' for name in part.names)} --to FOLDER")
        click.echo("book merge FOLDER…" if parts else "nothing to run: the freeze holds")


@click.command("run")
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

    with told():
        project = open_project(folder)
        known(project, names)
        (project.root / WORK).mkdir(exist_ok=True)
        results = run(
            building.plan(project), names, to,
            jobs=jobs, timeout=timeout, listener=Progress(project, quiet=False),
        )  # fmt: skip
    failures = [result for result in results if isinstance(result, Failure)]
    for failure in failures:
        for problem in failure.problems:
            tell_error(str(problem))
    click.echo(f"{count(len(results), 'result')} in {to}: give it to book merge")
    sys.exit(1 if failures else 0)


@click.command("merge")
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
    with told():
        project = open_project(folder)
        (project.root / WORK).mkdir(exist_ok=True)
        plan = building.plan(project)
        if compare:
            found = merging.compare(plan, results)
            tell_comparisons(found, summary(found), as_json)
        made = merging.merge(plan, results, partial=partial)
    if as_json:
        click.echo(json.dumps({"merged": sorted(made)}))
    else:
        numbers = sum(len(one.numbers["numbers"]) for one in made.values())
        click.echo(f"{count(len(made), 'chapter')} with {count(numbers, 'number')} in _freeze")
