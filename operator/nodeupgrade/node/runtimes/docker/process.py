"""The process of the running dockerd."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.runtimes.description import RuntimeProcess
from nodeupgrade.node.runtimes.socket_clients import listening, socket_at
from nodeupgrade.node.runtimes.socket_listener import process_of


def listener(
    endpoint: PurePosixPath, main_pid: int, processes: ProcessTable, files: FilesView
) -> RuntimeProcess | None:
    """Return the process that serves a socket; ``None`` if that cannot be told.

    systemd listens, and passes the socket on, so that the kernel names systemd as the peer. What tells is who has the
    socket open besides.
    """
    for inode in _listening(endpoint, processes, files):
        for pid in (main_pid, *processes.pids()):
            if pid not in {0, INIT} and inode in processes.sockets(pid):
                return process_of(pid, processes)
    return None


def _listening(endpoint: PurePosixPath, processes: ProcessTable, files: FilesView) -> Iterator[int]:
    """Yield the inodes of the sockets that listen at a path, which may have been bound by another name of it."""
    for inode, bound in listening(processes.text(INIT, "net/unix")):
        if bound == endpoint or (bound.name == endpoint.name and socket_at(bound, files) == endpoint):
            yield inode
