"""The running containerd: the process that listens on its socket, and its directories."""

import json
import socket
import struct
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.domain.errors import Transient
from nodeupgrade.domain.node.host import RuntimePlaces, RuntimeProcess

CREDENTIALS = struct.Struct("3i")
CONFIGURATION = "config"
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


def places(info: Mapping[str, str]) -> RuntimePlaces | None:
    """Return containerd's directories and socket as the CRI plugin reports them; ``None`` if it does not."""
    try:
        configuration = json.loads(info[CONFIGURATION])
        root, state, address = (configuration[key] for key in ("containerdRootDir", "stateDir", "containerdEndpoint"))
    except (KeyError, TypeError, ValueError):
        return None
    if not (root and state):
        return None
    # The plugin reports its own directory, which is one below containerd's.
    return RuntimePlaces(root=str(root), state=str(PurePosixPath(state).parent), address=str(address))
