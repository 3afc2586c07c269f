"""Run a chapter's cells in a kernel of its own and keep what they showed.

A chapter that raises, hangs, loses its kernel or drifts gives a Failure with file and line; nothing
is written here.
"""

import ast
import asyncio
import base64
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import zmq
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from bookbuild.outputs import UnknownOutput, cell_markdown, inline_markdown
from bookbuild.problems import Problem
from bookbuild.project import FIGURE_DEFAULTS, Project
from bookbuild.run import Failure, PieceResult, Run
from bookbuild.source import Cell, Inline, Prose, Source
from bookbuild.variables import kernel_environment
from bookbuild.warm import Gone, Nursery
from bookbuild.warm_kernel import HOLDS, NotAsAlone, forked_from, warmed

__all__ = ["execute", "kernel_environment", "line_in"]
ANSI = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(r"Cell In\[(\d+)\], line (\d+)")
CHAINED = "During handling of the above exception|was the direct cause of the following exception"
OPTIONS = (
    "--HistoryManager.enabled=False",
    # C++ libraries write times and process numbers to the terminal: no output of a cell.
    "--IPKernelApp.capture_fd_output=False",
)


@dataclass(frozen=True)
class _How:
    """How cells are run: seconds that one may take, variables of the kernel, its Python.

    warm: path of a chapter -> the process that its kernel is forked from; others start alone.
    first: code that the kernel runs before the chapter. keep_going: a cell that raises does not end
    the chapter.
    """

    timeout: float
    environment: Mapping[str, str]
    python: str
    first: str = ""
    keep_going: bool = False
    warm: Mapping[str, Nursery] = field(default_factory=dict)


@dataclass
class _Collected:
    pieces: list[PieceResult] = field(default_factory=list)
    figures: dict[str, bytes] = field(default_factory=dict)


class _OurKernel(KernelSpecManager):
    """Always the Python that is asked for, whatever kernels the user has installed by that name."""

    python = sys.executable

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        start = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}", *OPTIONS]
        return KernelSpec(argv=start, display_name="Python 3", language="python")


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
    how = _How(timeout, environment, python, first, keep_going, warm)
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
        async with _kernel(project, source, how, nursery) as client:
            collected = _Collected()
            count = 0
            broken: list[Problem] = []
            for piece in source.pieces:
                is_prose = isinstance(piece, Prose)
                what = "an inline expression" if is_prose else f"cell {piece.label}"
                line = piece.line
                try:
                    if is_prose:
                        collected.pieces.append(await _run_inlines(client, piece, project.root))
                    else:
                        count += 1
                        await _run_cell(client, piece, count, source, project.root, collected)
                except _CellFailed as error:
                    broken.append(Problem(source.path, error.line or line, f"{what}: {error}"))
                except UnknownOutput as error:
                    broken.append(Problem(source.path, line, f"{what} {error}"))
                if broken and not how.keep_going:
                    break
            line, what = 0, "the record of its inputs"
            record = await _record(client, project.root, bool(broken))
            if nursery and await _holds(client):
                raise NotAsAlone
    except CellTimeoutError:
        return failed(f"{what} ran for more than {how.timeout:g} s and was stopped", line)
    except DeadKernelError:
        return failed(f"{what}: the kernel died (out of memory, or a crash in compiled code)", line)
    except _CellFailed as error:
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


class _CellFailed(Exception):
    def __init__(self, text: str, line: int = 0):
        super().__init__(text)
        self.line = line


@asynccontextmanager
async def _kernel(
    project: Project, source: Source, how: _How, nursery: Nursery | None = None
) -> AsyncIterator[NotebookClient]:
    """A client with a running kernel in the chapter's folder; it never outlives the block."""
    folder = Path(tempfile.mkdtemp(prefix="book-kernel-"))
    path = project.root / source.path
    kernels = _OurKernel()
    kernels.python = how.python
    manager = AsyncKernelManager(
        kernel_spec_manager=kernels,
        connection_file=str(folder / "kernel.json"),
        # Sockets in a folder of our own: nobody else on the machine can talk to the kernel. Their
        # names are limited to some 100 bytes.
        transport="ipc" if os.name == "posix" and len(os.fsencode(folder)) < 80 else "tcp",
        shutdown_wait_time=2.0,
    )
    if nursery:
        forked_from(nursery, manager)
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        km=manager,
        timeout=how.timeout,
        startup_timeout=120,
        iopub_timeout=30,
        shell_timeout_interval=1,
        raise_on_iopub_timeout=True,
        record_timing=False,
        allow_errors=False,
        coalesce_streams=True,
    )
    figures = {key: project.html.get(key, default) for key, default in FIGURE_DEFAULTS.items()}
    log = folder / "kernel.log"
    try:
        (folder / "matplotlibrc").touch()
        with log.open("wb") as output:
            await client.async_start_new_kernel(
                cwd=str(path.parent),
                stdout=output,
                stderr=output,
                env={
                    # Matplotlib's own defaults, whatever the user has chosen for other work.
                    "MATPLOTLIBRC": str(folder / "matplotlibrc"),
                    **how.environment,
                    # The project's own package, also in a copy that is not the installed one.
                    "PYTHONPATH": str(project.root / "code"),
                    "IPYTHONDIR": str(folder / "ipython"),
                    # Not the user's keras.json, which may choose another float type or backend.
                    "KERAS_HOME": str(folder / "keras"),
                    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
                    "QUARTO_PROJECT_ROOT": str(project.root),
                    "QUARTO_DOCUMENT_PATH": str(path.parent),
                    "QUARTO_DOCUMENT_FILE": path.name,
                },
            )
        try:
            await client.async_start_new_kernel_client()
        except RuntimeError as error:
            said = log.read_text("utf-8", "replace").strip().splitlines() or [str(error)]
            raise _CellFailed(f"did not start: {said[-1]}") from None
        client.kc.iopub_channel.socket.set(zmq.RCVHWM, 0)  # see bookbuild.kernel
        await _run_hidden(
            client,
            "import bookbuild.kernel as _book_kernel; "
            f"_book_kernel.start({str(project.root)!r}, {figures!r})",
        )
        if how.first:
            await _run_hidden(client, how.first)
        yield client
    finally:
        if manager.has_kernel:
            if client.kc is not None:
                client.kc.stop_channels()
            await manager.shutdown_kernel(now=True)
        shutil.rmtree(folder, ignore_errors=True)


async def _run_hidden(client: NotebookClient, code: str) -> None:
    reply = await _reply(client, client.kc.execute(code, silent=True, store_history=False))
    if reply["content"]["status"] != "ok":
        raise _CellFailed(f"the build's own start failed: {reply['content'].get('evalue')}")


async def _reply(client: NotebookClient, message: str) -> Mapping[str, Any]:
    """The kernel's answer to a message; CellTimeoutError or DeadKernelError if there is none."""
    no_cell = nbformat.v4.new_code_cell("")  # nbclient wants one to say what took too long
    reply = await client.async_wait_for_reply(message, no_cell)
    if reply is None:
        raise DeadKernelError("Kernel died")
    return reply


async def _record(client: NotebookClient, root: Path, broken: bool) -> Mapping[str, Any]:
    """What the kernel recorded; after a failure, as much of it as can still be had."""
    try:
        result = (await _expressions(client, [f"_book_kernel.finish({str(root)!r})"]))[0]
        return json.loads(ast.literal_eval(result["text/plain"]))
    except (_CellFailed, CellTimeoutError, DeadKernelError):
        if not broken:
            raise
        return {"drifts": []}


async def _holds(client: NotebookClient) -> bool:
    """Whether the chapter left a library alone that was imported ahead for it."""
    try:
        result = (await _expressions(client, [HOLDS]))[0]
    except (_CellFailed, CellTimeoutError, DeadKernelError):
        return True
    return result["text/plain"] != "False"


async def _expressions(
    client: NotebookClient, expressions: Sequence[str]
) -> list[Mapping[str, str]]:
    """Jupyter's data of each expression, evaluated together after an empty cell."""
    wanted = {str(number): text for number, text in enumerate(expressions)}
    reply = await _reply(client, client.kc.execute("", user_expressions=wanted))
    results = []
    for number, text in wanted.items():
        result = reply["content"].get("user_expressions", {}).get(number, {})
        if result.get("status") != "ok":
            said = f"{result.get('ename', 'Error')}: {result.get('evalue', 'no value')}"
            raise _CellFailed(f"`{text}` gave {said}")
        results.append(result["data"])
    return results


async def _run_inlines(client: NotebookClient, piece: Prose, root: Path) -> PieceResult:
    if not piece.inlines:
        return PieceResult()
    try:
        data = await _expressions(client, [inline.expression for inline in piece.inlines])
    except _CellFailed as error:
        raise _CellFailed(str(error), _line_of(piece, str(error))) from None
    values = []
    for inline, shown in zip(piece.inlines, data, strict=True):
        try:
            values.append(inline_markdown(shown))
            if found := _unrepeatable("\n".join(map(str, shown.values())), root):
                raise UnknownOutput(found)
        except UnknownOutput as error:
            text = f"`{inline.expression}` {error}"
            raise _CellFailed(text, line_in(piece, inline)) from None
    return PieceResult(inlines=tuple(values))


def _unrepeatable(text: str, root: Path) -> str | None:
    """What in an output names this machine or this run, as a message."""
    for folder in (str(root), str(Path.home())):
        if folder != "/" and re.search(rf"{re.escape(folder)}(?![\w-])", text):
            return f"prints {folder}, a folder of this machine; print what is the same everywhere"
    if found := re.search(r"\bat 0x[0-9a-f]{6,}|\bipykernel_\d+", text):
        return f"prints {found.group()!r}, which differs from run to run; print what stays the same"
    return None


def _line_of(piece: Prose, message: str) -> int:
    for inline in piece.inlines:
        if message.startswith(f"`{inline.expression}`"):
            return line_in(piece, inline)
    return piece.line


def line_in(piece: Prose, inline: Inline) -> int:
    return piece.line + piece.text.count("\n", 0, inline.start)


async def _run_cell(
    client: NotebookClient,
    cell: Cell,
    count: int,
    source: Source,
    root: Path,
    collected: _Collected,
) -> None:
    notebook_cell = nbformat.v4.new_code_cell(cell.code)
    if cell.options.get("eval") is not False:
        if cell.options.get("error"):
            notebook_cell.metadata["tags"] = ["raises-exception"]
        client.nb.cells = [notebook_cell]
        try:
            await client.async_execute_cell(notebook_cell, 0, store_history=True)
        except CellExecutionError as error:
            raise _CellFailed(_what_was_raised(error), _raised_at(cell, error)) from None
    files = f"{Path(source.path).stem}_files"
    made = cell_markdown(cell, notebook_cell.outputs, count, files)
    if found := _unrepeatable(made.text.replace(cell.code, "", 1), root):
        raise UnknownOutput(found)
    for name, content in made.figures.items():
        text = content if name.endswith(".svg") else base64.b64decode(content)
        collected.figures[name] = text.encode() if isinstance(text, str) else text
    collected.pieces.append(PieceResult(markdown=made.text))


def _what_was_raised(error: CellExecutionError) -> str:
    value = ANSI.sub("", error.evalue).strip()
    return f"{error.ename}: {value}" if value else error.ename


def _raised_at(cell: Cell, error: CellExecutionError) -> int:
    """The line of the chapter on which the cell's own code was when it raised."""
    # Of chained errors the last stopped the cell; functions of earlier cells have lower numbers.
    text = re.split(CHAINED, ANSI.sub("", error.traceback))[-1]
    frames = [tuple(map(int, frame)) for frame in FRAME.findall(text)]
    if not frames:
        return cell.line
    newest = max(number for number, _ in frames)
    line = next(line for number, line in frames if number == newest)
    return cell.code_line + line - 1
