"""`book watch`: what no longer holds in the world outside, newer libraries and dead links."""

import json
import sys
from pathlib import Path

import click

from bookbuild import build as building
from bookbuild.cli_shared import (
    count,
    directory,
    jobs_option,
    open_project,
    tell_error,
    timeout_option,
    told,
)


@click.group()
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

    with told():
        plan = building.plan(open_project(folder))
        found = numbers(
            plan, name, python, jobs=jobs, timeout=timeout, locked=locked, told=tell_error
        )  # fmt: skip
        _write_json(to, found)
    click.echo(
        f"{name}: {len(found['moved'])} of {count(found['computed'], 'number')} moved, "
        f"{count(len(found['raised']), 'failure')}; {to}"
    )


@watch.command("links")
@directory
@click.option("--to", required=True, type=click.Path(dir_okay=False, path_type=Path))
def watch_links(folder, to):
    """Follow every link that leads out of the built site."""
    from bookbuild.watch_links import collect, follow

    with told():
        project = open_project(folder)
        found = follow(collect(project.root, project.root / project.output_dir))
        _write_json(to, found)
    click.echo(f"{count(found['links'], 'link')}, {len(found['gone'])} gone; {to}")


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

    with told():
        read = [json.loads(path.read_text(encoding="utf-8")) for path in numbers]
        followed = json.loads(links.read_text(encoding="utf-8")) if links else None
        to.write_text(report(read, followed, missing), encoding="utf-8")
    sys.exit(0 if is_well(read, followed, missing) else 1)


def _write_json(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
