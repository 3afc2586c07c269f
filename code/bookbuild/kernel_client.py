"""A chapter's kernel, seen from outside: started, asked, and ended with the block that wants it."""

import ast
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import zmq
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from bookbuild.project import FIGURE_DEFAULTS, Project
from bookbuild.source import Source
from bookbuild.warm import Nursery
from bookbuild.warm_kernel import HOLDS, forked_from

OPTIONS = (
    "--HistoryManager.enabled=False",
    # C++ libraries write times and process numbers to the terminal: no output of a cell.
    "--IPKernelApp.capture_fd_output=False",
)


@dataclass(frozen=True)
class How:
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


class CellFailed(Exception):
    """What a cell or an expression raised; `line` is the chapter's, or 0 where nobody knows it."""

    def __init__(self, text: str, line: int = 0):
        super().__init__(text)
        self.line = line


class _OurKernel(KernelSpecManager):
    """Always the Python that is asked for, whatever kernels the user has installed by that name."""

    python = sys.executable

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        start = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}", *OPTIONS]
        return KernelSpec(argv=start, display_name="Python 3", language="python")


@asynccontextmanager
async def running(
    project: Project, source: Source, how: How, nursery: Nursery | None = None
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
            raise CellFailed(f"did not start: {said[-1]}") from None
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
        raise CellFailed(f"the build's own start failed: {reply['content'].get('evalue')}")


async def _reply(client: NotebookClient, message: str) -> Mapping[str, Any]:
    """The kernel's answer to a message; CellTimeoutError or DeadKernelError if there is none."""
    no_cell = nbformat.v4.new_code_cell("")  # nbclient wants one to say what took too long
    reply = await client.async_wait_for_reply(message, no_cell)
    if reply is None:
        raise DeadKernelError("Kernel died")
    return reply


async def record_of(client: NotebookClient, root: Path, broken: bool) -> Mapping[str, Any]:
    """What the kernel recorded; after a failure, as much of it as can still be had."""
    try:
        result = (await evaluate(client, [f"_book_kernel.finish({str(root)!r})"]))[0]
        return json.loads(ast.literal_eval(result["text/plain"]))
    except (CellFailed, CellTimeoutError, DeadKernelError):
        if not broken:
            raise
        return {"drifts": []}


async def holds(client: NotebookClient) -> bool:
    """Whether the chapter left a library alone that was imported ahead for it."""
    try:
        result = (await evaluate(client, [HOLDS]))[0]
    except (CellFailed, CellTimeoutError, DeadKernelError):
        return True
    return result["text/plain"] != "False"


async def evaluate(client: NotebookClient, expressions: Sequence[str]) -> list[Mapping[str, str]]:
    """Jupyter's data of each expression, evaluated together after an empty cell."""
    wanted = {str(number): text for number, text in enumerate(expressions)}
    reply = await _reply(client, client.kc.execute("", user_expressions=wanted))
    results = []
    for number, text in wanted.items():
        result = reply["content"].get("user_expressions", {}).get(number, {})
        if result.get("status") != "ok":
            said = f"{result.get('ename', 'Error')}: {result.get('evalue', 'no value')}"
            raise CellFailed(f"`{text}` gave {said}")
        results.append(result["data"])
    return results
