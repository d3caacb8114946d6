"""The process of the running dockerd, and how it is stopped."""

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
    that has the socket open. It may have been bound by another name of its path; only that of a process of the unit is
    followed, since a pod in the node's network may name what never answers, such as a volume of NFS.
    """
    listening = [each for each in listening_sockets(processes.text(INIT, "net/unix")) if each[1].name == endpoint.name]
    for pid in (main_pid, *processes.pids()):
        opened = frozenset[int]() if pid in {0, INIT} else processes.sockets(pid)
        for bound in [path for inode, path in listening if inode in opened]:
            is_ours = pid == main_pid or UNIT in processes.units(pid)
            if bound == endpoint or (is_ours and resolve_socket(bound, files) == endpoint):
                return runtime_process(pid, processes)
    return None


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
