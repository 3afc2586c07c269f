"""What Jupyter's client is told of a kernel that was forked instead of started."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from bookbuild.warm import Gone, Nursery

# Of a chapter's kernel: whether it still hides what was imported ahead. See warm_child.Held.
HOLDS = "any(getattr(one, 'held', ()) for one in __import__('sys').meta_path)"


class NotAsAlone(Exception):
    """A chapter did not import what was imported ahead for it: its kernel must start alone."""


class _Process:
    """A forked kernel, with what the client asks of one that it has started."""

    stdin = stdout = stderr = None

    def __init__(self, nursery: Nursery, pid: int):
        self.nursery, self.pid = nursery, pid
        self._ended = False

    def poll(self) -> int | None:
        """None while it runs. How it ended is known to the process that it was forked from."""
        if self._ended:
            return 0
        try:
            state = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:  # that process has ended, and this one with it
            return 0
        return 0 if state in (b"Z", b"X") else None

    def wait(self) -> int:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Gone):
                self.nursery.release(self.pid)
        return 0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Forked(LocalProvisioner):
    """Gives the client a kernel that was forked from a nursery."""

    nursery: Nursery

    async def launch_kernel(self, cmd: list[str], **given: Any) -> dict[str, Any]:
        arguments = cmd[cmd.index("-f") :]
        pid = await asyncio.to_thread(
            self.nursery.fork, arguments, given["env"], str(given["cwd"]), given["stdout"].name
        )
        self.process, self.pid, self.pgid = _Process(self.nursery, pid), pid, pid
        self.cwd = given["cwd"]
        return self.connection_info


def forked_from(nursery: Nursery, manager: AsyncKernelManager) -> None:
    """Make a manager's kernel one that is forked from `nursery`."""
    manager.provisioner = _Forked(
        kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager
    )
    manager.provisioner.nursery = nursery


async def warmed(nursery: Nursery) -> bool:
    """Wait until a nursery has imported its libraries; whether it could."""
    try:
        await asyncio.to_thread(nursery.wait)
    except Gone:
        return False
    except asyncio.CancelledError:
        nursery.process.kill()  # else the thread would wait on
        raise
    return True
