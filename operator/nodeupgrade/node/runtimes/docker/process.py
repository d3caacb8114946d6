"""The process of the running dockerd."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.runtimes.description import RuntimeProcess
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
