"""The shield's process, started as systemd does, and what it stands between."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.shield.socket_exchange import CALLS, HostShield
from tests.builders.shielded import WEB, container, container_of, shielded_plan

WITHOUT_BUNDLE = """
import sys
from nodeupgrade.node.shield import process

class Nothing:
    def find_spec(self, name, path=None, target=None):
        raise ImportError(f"{name} is first imported now")

def ready(notify=process.notify_ready):
    sys.meta_path.insert(0, Nothing())
    notify()

process.notify_ready = ready
sys.exit(process.main())
"""
"""The shield's process, whose bundle is removed as soon as it serves."""
STOP_WEB = pb.StopContainerRequest(container_id=container_of(WEB)).SerializeToString()


class Rig:
    """A runtime's socket, the node's runs, and the port that the executor uses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "runtime.sock"
        self.own = directory / CALLS.parent
        self.runs = RunStore(directory / "runs")
        self.shield = HostShield(self.path, directory)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(directory / "notify"))
        self.notified.setblocking(False)
        self.plan = shielded_plan(socket=str(self.path), static=False)

    def protect(self, *, kubelet: bool = False) -> None:
        """Write a plan that protects this very process, which may also be the kubelet."""
        own = ProcessTable().process(os.getpid())
        if kubelet:
            self.plan = replace(self.plan, swap=replace(self.plan.swap, path=str(Path(sys.executable).resolve())))
        web = replace(container(WEB, 1), process=own)
        self.runs.write_plan(replace(self.plan, baseline=Inventory(containers=(web,))))

    async def start(
        self, patience: float = 0.2, run: tuple[str, str] = ("-m", "nodeupgrade.node.shield.process")
    ) -> asyncio.subprocess.Process:
        """Start the process and wait until it has notified systemd, or ended."""
        self.own.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *run, "--socket", str(self.path),
            "--runs", str(self.directory / "runs"), "--state", str(self.directory), "--patience", str(patience),
            env=os.environ | {"NOTIFY_SOCKET": str(self.directory / "notify"), "RUNTIME_DIRECTORY": str(self.own)},
        )  # fmt: skip
        told = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(self.notified, 100))
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait((told, ended), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        return process

    @asynccontextmanager
    async def serving(self, patience: float = 0.2) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await self.start(patience)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def until(true: Callable[[], object]) -> None:
    """Wait for what another process does."""
    while not true():  # noqa: ASYNC110  # no event of ours tells
        await asyncio.sleep(0.005)


async def failure(call: Any) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def sockets(rig: Rig) -> set[str]:
    return {entry.name for entry in rig.directory.iterdir() if entry.is_socket()} - {"notify"}
