"""The process that listens on a unix socket."""

import socket
import struct
from pathlib import Path

from nodeupgrade.adapters.proc.table import ProcessTable
from nodeupgrade.domain.errors import Transient
from nodeupgrade.domain.node.runtime_info import RuntimeProcess

CREDENTIALS = struct.Struct("3i")
TIMEOUT_SECONDS = 5.0


def listener(path: Path, processes: ProcessTable) -> RuntimeProcess | None:
    """Return the process that listens on a socket; ``None`` if it is not visible from this PID namespace.

    Raises:
        Transient: no process listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(str(path))
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        except OSError as error:
            raise Transient(f"cannot connect to {path} because {error.strerror or error}") from error
    pid = processes.own_number(CREDENTIALS.unpack(raw)[0])
    words = None if pid is None else processes.arguments(pid)
    if pid is None or not words:
        return None
    return RuntimeProcess(pid=pid, words=words, program=processes.program_digest(pid))
