"""The system calls behind the exchange of sockets."""

import os
import socket
from pathlib import Path
from typing import Protocol

CONNECT_SECONDS = 2.0


class System(Protocol):
    """The system calls that change names and attributes; the module ``os`` is the real implementation."""

    def stat(self, path: Path) -> os.stat_result: ...
    def link(self, src: Path, dst: Path) -> None: ...
    def rename(self, src: Path, dst: Path) -> None: ...
    def unlink(self, path: Path) -> None: ...
    def chmod(self, path: Path, mode: int) -> None: ...
    def chown(self, path: Path, uid: int, gid: int) -> None: ...
    def listxattr(self, path: Path) -> list[str]: ...
    def getxattr(self, path: Path, attribute: str) -> bytes: ...
    def setxattr(self, path: Path, attribute: str, value: bytes) -> None: ...


def accepts(path: Path) -> bool:
    """Report whether a process listens on a socket; one that is too busy to accept a connection now does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
    return True
