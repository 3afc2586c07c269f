"""Run a chapter's cells in a kernel of its own and keep what they showed.

A chapter that raises, hangs, loses its kernel or drifts gives a Failure with file and line; nothing
is written here.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from nbclient.exceptions import CellTimeoutError, DeadKernelError

from bookbuild.kernel_client import CellFailed, How, holds, record_of, running
from bookbuild.outputs import UnknownOutput
from bookbuild.pieces import Collected, run_cell, run_inlines
from bookbuild.problems import Problem
from bookbuild.project import Project
from bookbuild.run import Failure, Run
from bookbuild.source import Prose, Source
from bookbuild.variables import kernel_environment
from bookbuild.warm import Gone, Nursery
from bookbuild.warm_kernel import NotAsAlone, warmed

__all__ = ["execute", "kernel_environment"]


def execute(
    project: Project,
    sources: Sequence[Source],
    *,
    jobs: int,
    timeout: float,
    environment: Mapping[str, str],
    done: Callable[[Run | Failure], None] = lambda result: None,
    python: str = sys.executable,
    warm: Mapping[str, Nursery] | None = None,
    first: str = "",
    keep_going: bool = False,
) -> list[Run | Failure]:
    """Execute chapters, `jobs` at a time, each in its own kernel; results in the order given.

    Args:
        timeout: seconds that one cell may take.
        environment: variables of the kernels, complete.
        done: called with each result as soon as it is there.
        python: the interpreter of the kernels; it must have what the book is locked to.
        first: code that each kernel runs before its chapter.
        keep_going: run the cells after one that raised too, and tell of all that did.
        warm: path of a chapter -> the process that its kernel is forked from, as far as there is
            one (see bookbuild.warm).
    """
    if warm is None or python != sys.executable:  # what is warmed is the Python that runs this
        warm = {}
    how = How(timeout, environment, python, first, keep_going, warm)
    return asyncio.run(_execute_all(project, sources, jobs, how, done))


async def _execute_all(project, sources, jobs, how, done):
    gate = asyncio.Semaphore(jobs)

    async def one(source: Source) -> Run | Failure:
        nursery = how.warm.get(source.path)
        if nursery and not await warmed(nursery):  # not at the cost of a chapter that could run
            nursery = None
        async with gate:
            started = time.monotonic()
            try:
                result = await _execute_one(project, source, how, started, nursery)
            except (NotAsAlone, Gone):
                result = await _execute_one(project, source, how, started)
            if asyncio.current_task().cancelling():  # nbclient takes it for a kernel's death
                raise asyncio.CancelledError
            done(result)
            return result

    return await asyncio.gather(*map(one, sources))


async def _execute_one(project, source, how, started, nursery=None) -> Run | Failure:
    line, what = 0, "its kernel"

    def failed(text: str, at: int) -> Failure:
        problem = Problem(source.path, at, text)
        return Failure(source, (problem,), time.monotonic() - started)

    try:
        async with running(project, source, how, nursery) as client:
            collected = Collected()
            count = 0
            broken: list[Problem] = []
            for piece in source.pieces:
                is_prose = isinstance(piece, Prose)
                what = "an inline expression" if is_prose else f"cell {piece.label}"
                line = piece.line
                try:
                    if is_prose:
                        collected.pieces.append(await run_inlines(client, piece, project.root))
                    else:
                        count += 1
                        await run_cell(client, piece, count, source, project.root, collected)
                except CellFailed as error:
                    broken.append(Problem(source.path, error.line or line, f"{what}: {error}"))
                except UnknownOutput as error:
                    broken.append(Problem(source.path, line, f"{what} {error}"))
                if broken and not how.keep_going:
                    break
            line, what = 0, "the record of its inputs"
            record = await record_of(client, project.root, bool(broken))
            if nursery and await holds(client):
                raise NotAsAlone
    except CellTimeoutError:
        return failed(f"{what} ran for more than {how.timeout:g} s and was stopped", line)
    except DeadKernelError:
        return failed(f"{what}: the kernel died (out of memory, or a crash in compiled code)", line)
    except CellFailed as error:
        return failed(f"{what}: {error}", error.line or line)
    if broken or record["drifts"]:
        # A number that drifted may well be why a later cell raised: tell both.
        problems = [Problem(source.path, d["line"], d["message"]) for d in record["drifts"]]
        problems += broken
        seconds = time.monotonic() - started
        return Failure(source, tuple(problems), seconds, tuple(record["drifts"]), record)
    return Run(
        source,
        tuple(collected.pieces),
        collected.figures,
        record,
        time.monotonic() - started,
    )
