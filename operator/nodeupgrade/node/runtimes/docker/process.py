"""The process of the running dockerd, and how it is stopped."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.runtimes.description import RuntimeProcess
from nodeupgrade.node.runtimes.docker.client import Document
from nodeupgrade.node.runtimes.docker.next_start import SOCKET_UNIT, UNIT
from nodeupgrade.node.runtimes.docker.restart_hazards import LIVE_RESTORE_OFF
from nodeupgrade.node.runtimes.socket_clients import listening_sockets, resolve_socket
from nodeupgrade.node.runtimes.socket_listener import runtime_process


def find_daemon(
    endpoint: PurePosixPath, main_pid: int, processes: ProcessTable, files: FilesView
) -> RuntimeProcess | None:
    """Return the process that serves a socket; ``None`` if it is unknown.

    systemd listens and passes the socket on, so the kernel names systemd as the peer. The daemon is the other process
    that has the socket open.
    """
    for inode in _listening(endpoint, processes, files):
        for pid in (main_pid, *processes.pids()):
            if pid not in {0, INIT} and inode in processes.sockets(pid):
                return runtime_process(pid, processes)
    return None


def _listening(endpoint: PurePosixPath, processes: ProcessTable, files: FilesView) -> Iterator[int]:
    """Yield the inodes of the sockets that listen at a path, which may have been bound by another name of it."""
    for inode, bound in listening_sockets(processes.text(INIT, "net/unix")):
        if bound == endpoint or (bound.name == endpoint.name and resolve_socket(bound, files) == endpoint):
            yield inode


def units(services: ServiceManager) -> tuple[str, ...]:
    """Return the socket, if dockerd has one that systemd opens, and the service."""
    has_socket = services.status(SOCKET_UNIT).load_state == "loaded"
    return (SOCKET_UNIT, UNIT) if has_socket else (UNIT,)


def stop_daemon(services: ServiceManager, info: Document | None) -> None:
    """Stop dockerd and the socket that would start it again, once it reports that containers survive that.

    Args:
        services: of the node.
        info: dockerd's answer to ``/info``; ``None`` if it does not run.

    Raises:
        StepFailed: it would end containers, or does not stop.
    """
    if info is not None and info.get("LiveRestoreEnabled") is not True:
        raise StepFailed(f"dockerd was not stopped: {LIVE_RESTORE_OFF}")
    # A service that requires the socket is stopped with it. An automatic restart may be pending all the same.
    for unit in units(services):
        services.stop(unit)
