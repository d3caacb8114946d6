"""Listening sockets for the exchange of sockets, and system calls that kill their caller."""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from nodeupgrade.node.shield.socket_exchange import Exchange

RUNTIME, SHIELD = "containerd.sock", "nodeupgrade-shield.sock"
KEPT = "nodeupgrade-runtime.sock"
CALLS = ("stat", "link", "rename", "unlink", "chmod", "chown", "listxattr", "getxattr", "setxattr")


class Killed(BaseException):
    """The process was killed."""


class Mortal:
    """The system calls, of which one kills the caller before or after it takes effect."""

    def __init__(self, number: int = -1, *, after: bool = False) -> None:
        self.left, self.after = number, after
        self.seen = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.seen += 1
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Killed
            try:
                return getattr(os, name)(*given)
            finally:
                if self.left == 0:
                    raise Killed

        assert name in CALLS
        return call


class Rig:
    """A directory with listening sockets."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack
        self.path = directory / RUNTIME
        self.listening: dict[str, socket.socket] = {}
        self.runtime = self.listen("runtime", RUNTIME)
        self.shield = self.listen("shield", SHIELD)

    def listen(self, who: str, name: str) -> int:
        """Take a path, as runtimes and gRPC do: remove what is there and bind anew. Return the socket's inode."""
        path = self.directory / name
        path.unlink(missing_ok=True)
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen()
        self.listening[who] = listener
        return path.stat().st_ino

    def exchange(self, system: Any = os, patience: float = 0.0) -> Exchange:
        return Exchange(self.path, self.directory, system=system, patience=patience)

    def inode(self, name: str = RUNTIME) -> int | None:
        with suppress(FileNotFoundError):
            return (self.directory / name).stat().st_ino
        return None

    def sockets(self) -> set[str]:
        return {entry.name for entry in self.directory.iterdir() if entry.is_socket()}


def fresh(tmp_path: Path, stack: ExitStack, number: int) -> Rig:
    directory = tmp_path / str(number)
    directory.mkdir()
    return Rig(directory, stack)
