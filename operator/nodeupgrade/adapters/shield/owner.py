"""The process that listens on a socket, and its end."""

import os
import socket
import struct
from pathlib import Path

CREDENTIALS = struct.Struct("3i")
CONNECT_SECONDS = 2.0


def open_owner(path: Path) -> int | None:
    """Return a file descriptor that is readable as soon as the process that listens on a socket has ended.

    Returns:
        ``None`` if nobody listens, or if that process cannot be followed: it is outside of our PID namespace, or the
        kernel is older than 5.3.
    """
    pid = _listens(path)
    if pid is None:
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if _listens(path) == pid:  # so that no other process has got its PID in between
        return descriptor
    os.close(descriptor)
    return None


def _listens(path: Path) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(str(path))
            given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        except OSError:
            return None
    return int(CREDENTIALS.unpack(given)[0]) or None
