"""`book backends`: the book's numbers on JAX and on PyTorch."""

import sys

import click

from bookbuild import build as building
from bookbuild.cli_shared import (
    directory,
    jobs_option,
    known,
    open_project,
    tell_error,
    told,
)
from bookbuild.placing import WORK


@click.command("backends")
@directory
@jobs_option
@click.option(
    "--timeout", default=3600.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Seconds that one cell may take; training is far slower on PyTorch.",
)  # fmt: skip
@click.option(
    "--backend", "names", multiple=True, type=click.Choice(["jax", "torch"]),
    help="Only on this one; may be repeated.",
)  # fmt: skip
@click.option(
    "--chapter", "chapters", multiple=True, metavar="CHAPTER",
    help="Only this chapter; may be repeated.",
)  # fmt: skip
def backends_command(folder, jobs, timeout, names, chapters):
    """Recompute every number on JAX and PyTorch; tell which disagree. Only a run over all of
    them writes what the book shows.
    """
    from bookbuild import backends

    with told():
        project = open_project(folder)
        known(project, chapters)
        (project.root / WORK).mkdir(exist_ok=True)
        found, said = backends.verify(
            building.plan(project),
            names=names, chapters=chapters, jobs=jobs, timeout=timeout, told=tell_error,
        )  # fmt: skip
    for problem in found:
        tell_error(str(problem))
    click.echo("\n".join(said))
    sys.exit(1 if found else 0)
