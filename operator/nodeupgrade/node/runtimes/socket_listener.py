"""The process that listens on a unix socket."""

import contextlib
import os
import socket
import struct
from pathlib import Path

from nodeupgrade.errors import Transient
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.sock_diag import TIMEOUT_SECONDS
from nodeupgrade.node.runtimes.description import RuntimeProcess

CREDENTIALS = struct.Struct("3i")


def find_listener(path: Path, processes: ProcessTable) -> RuntimeProcess | None:
    """Return the process that listens on a socket; ``None`` if it is not visible from this PID namespace.

    Raises:
        Transient: no process listens.
    """
    pid = processes.own_number(_listens(path))
    return None if pid is None else runtime_process(pid, processes)


def runtime_process(pid: int, processes: ProcessTable) -> RuntimeProcess | None:
    """Describe a runtime's process; ``None`` if it has ended."""
    words = processes.arguments(pid)
    return RuntimeProcess(pid=pid, words=words, program=processes.program_digest(pid)) if words else None


def open_listener(path: Path) -> int | None:
    """Return a file descriptor that is readable as soon as the process that listens on a socket has ended.

    ``None`` if no process listens, it is outside of our PID namespace, or the kernel is older than 5.3.
    """
    try:
        pid = _listens(path)
        descriptor = os.pidfd_open(pid)
    except (Transient, OSError):
        return None
    with contextlib.suppress(Transient):
        if _listens(path) == pid:  # so that no other process has got its PID in between
            return descriptor
    os.close(descriptor)
    return None


def peer_of(connection: socket.socket) -> int:
    """Return the PID that connected or began to listen at a connection's other end; 0 outside of our PID namespace."""
    pid: int
    pid, _uid, _gid = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return pid


def _listens(path: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(str(path))
            return peer_of(connection)
        except OSError as error:
            raise Transient(f"cannot connect to {path} because {error.strerror or error}") from error
