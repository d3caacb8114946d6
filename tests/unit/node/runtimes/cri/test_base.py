"""Tests for waiting until a CRI runtime answers."""

import time
from pathlib import Path

import grpc
import pytest

from nodeupgrade.errors import Transient, Unimplemented
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from tests.builders.cri_server import runtime_named, serving


def test_waiting_ends_when_the_cri_answers_and_not_when_it_merely_listens(socket: Path) -> None:
    ready_at = time.monotonic() + 0.5

    def recovering(path: str, context: grpc.ServicerContext) -> bytes:
        if time.monotonic() < ready_at:
            context.abort(grpc.StatusCode.UNKNOWN, "server is not initialized yet")
        return b"" if path.endswith("ListContainers") else runtime_named("containerd")(path, context)

    runtime = ContainerdRuntime(socket, processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    with serving(socket, recovering):
        runtime.wait_until_answering(30)
        assert time.monotonic() >= ready_at
    with pytest.raises(Transient, match="did not answer within"):
        runtime.wait_until_answering(0.1)
    runtime.close()


def test_a_runtime_that_has_started_without_its_cri_is_waited_for_and_told_apart_by_whoever_asks_first(
    socket: Path,
) -> None:
    """No call has found out yet which versions it serves: a new executor, or any after a restart of the runtime."""

    def without(_path: str, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
        raise AssertionError

    runtime = ContainerdRuntime(socket, processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    with serving(socket, without):
        with pytest.raises(Unimplemented):
            runtime.inventory()
        with pytest.raises(Transient, match="did not answer within"):
            runtime.wait_until_answering(0.1)
    runtime.close()
