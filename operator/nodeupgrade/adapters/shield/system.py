"""The system calls behind the exchange of sockets."""

import os
import socket
from pathlib import Path
from typing import Protocol

CONNECT_SECONDS = 2.0


class System(Protocol):
    """The system calls that change names and attributes; the module ``os`` is the real implementation."""

    def stat(self, path: Path) -> os.stat_result:
        """Return a file's status."""
        ...

    def link(self, src: Path, dst: Path) -> None:
        """Give a file another name."""
        ...

    def rename(self, src: Path, dst: Path) -> None:
        """Rename a file over another one."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        ...

    def chmod(self, path: Path, mode: int) -> None:
        """Set permissions."""
        ...

    def chown(self, path: Path, uid: int, gid: int) -> None:
        """Set the owner."""
        ...

    def listxattr(self, path: Path) -> list[str]:
        """List extended attributes."""
        ...

    def getxattr(self, path: Path, attribute: str) -> bytes:
        """Return an extended attribute."""
        ...

    def setxattr(self, path: Path, attribute: str, value: bytes) -> None:
        """Set an extended attribute."""
        ...


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
