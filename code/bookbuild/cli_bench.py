"""`book bench`: how fast the build is beside other tools, and how it grows with the book."""

import sys

import click

from bookbuild.cli_shared import directory, jobs_option, open_project, tell_error, told


@click.command("bench")
@directory
@jobs_option
@click.option(
    "--repetitions", default=3, show_default=True, type=click.IntRange(1, 9),
    help="How often everything is measured.",
)  # fmt: skip
@click.option("--growth", "growing", is_flag=True, help="Measure books of 10 to 1,000 chapters.")
@click.option(
    "--size", "sizes", multiple=True, type=click.IntRange(2), metavar="N",
    help="With --growth: this number of chapters instead; may be repeated.",
)  # fmt: skip
def bench_command(folder, jobs, repetitions, growing, sizes):
    """Measure builds beside those of Jupyter Book, nbconvert and, where it is, Quarto.

    Results go to media/data/bench.json, from which the page on speed is made.
    """
    if sizes and not growing:
        raise click.UsageError("--size goes with --growth")
    from bookbuild import bench, bench_command, growth

    with told():
        root = open_project(folder).root
        if growing:
            found = bench_command.grow(root, sorted(sizes) or [10, 100, 1000], jobs, tell_error)
            wrong = growth.faults(found["rows"])
        else:
            found = bench_command.peers(root, jobs, repetitions, tell_error)
            wrong = bench.missed(found["tools"])
    for line in wrong:
        click.echo(line, err=True)
    click.echo(f"{bench_command.RESULTS} written; the load before was {found['load']}")
    sys.exit(1 if wrong else 0)
