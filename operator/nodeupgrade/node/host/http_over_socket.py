"""The client's side of HTTP over a unix socket."""

import http.client
import socket
from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket.

    Args:
        path: of the socket.
        timeout: seconds for each step of a call.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
