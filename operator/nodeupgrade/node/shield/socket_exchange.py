"""The exchange of sockets: which socket a kubelet finds at the path of the runtime's.

One directory has three names: the runtime's path, the shield's own socket, and another name of the runtime's socket,
which exists exactly for as long as the shield is meant to be raised. Each change is one rename, so there is no moment
without a socket. If the process is killed between two system calls, the next raise or lower completes its work.
"""

import contextlib
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.atomic import carried_attributes
from nodeupgrade.node.runtimes.description import RUNTIME_SOCKET, SHIELD_SOCKET
from nodeupgrade.node.shield.records import ShieldRecords, append
from nodeupgrade.node.shield.shield import LOCK, RESTARTS

Inode: TypeAlias = tuple[int, int]

STATE = Path("/run")
CALLS = Path("nodeupgrade-shield/calls.sock")
"""The socket below ``/run`` through which the shield's process passes on calls; somebody may remove it."""
PATIENCE = 3.0
"""Seconds for which lower() waits for a runtime that is just being restarted."""
LOOK_SECONDS = 0.05
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
    """Report whether a process listens on a socket, even if it is too busy to accept a connection now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
    return True


class Exchange:
    """The names of one runtime's socket.

    Args:
        path: path of the runtime's socket, without symbolic links.
        state: directory for the lock and for the count of restarts; does not outlive the boot.
        system: receives the system calls.
        patience: seconds for which lower() waits for the runtime.
    """

    def __init__(self, path: Path, state: Path, *, system: System = os, patience: float = PATIENCE) -> None:
        self.path = path
        self.shield = path.with_name(SHIELD_SOCKET)
        self.runtime = path.with_name(RUNTIME_SOCKET)
        self._fresh = path.with_name("nodeupgrade-fresh.sock")
        self._state = state
        self._system = system
        self._patience = patience

    def ready(self) -> bool:
        return accepts(self.shield)

    def intended(self) -> bool:
        """Report whether the shield is meant to be raised."""
        return self._inode(self.runtime) is not None

    def raised(self) -> bool:
        """Report whether the runtime's path leads to the shield's socket, even if no process listens there."""
        found, moved = self._inode(self.path), self._inode(self.runtime)
        if found is None or moved is None or found == moved:
            return False
        return found == self._inode(self.shield) or not accepts(self.path)

    def stands_by(self) -> bool:
        """Report whether the path is free for a runtime that starts."""
        return self.intended() and self.ready() and self._inode(self.path) is None

    def upstream(self) -> Path:
        """Return the path at which the runtime's own socket is now."""
        return self.runtime if self._inode(self.path) in {None, self._inode(self.shield)} else self.path

    def foreign_socket(self) -> tuple[int, ...] | None:
        """Return inode, mode and owner of a socket that is where the shield's should be; ``None`` if there is none.

        The runtime sets mode and owner right after it has bound the path.
        """
        try:
            seen = self._system.stat(self.path)
        except FileNotFoundError:
            return None
        if not self.intended() or (seen.st_dev, seen.st_ino) == self._inode(self.shield):
            return None
        return seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid

    def raise_up(self) -> None:
        with self._locked("raise the shield"):
            self._raise()

    def raise_again(self) -> None:
        """Complete what was interrupted, or put the shield back where the runtime took its path again.

        Does nothing if the shield is not meant to be raised.

        Raises:
            StepFailed: as for raise_up().
        """
        with self._locked("raise the shield again"):
            if self.intended():
                self._raise()

    def lower(self) -> None:
        with self._locked("lower the shield"):
            self._lower()

    def step_aside(self) -> None:
        """Leave the runtime's path to the next runtime, if the runtime has ended; the shield stays meant to be raised.

        Raises:
            StepFailed: that cannot be done.
        """
        with self._locked("leave the runtime's path"):
            if self.intended() and self._inode(self.path) == self._inode(self.shield) and not accepts(self.runtime):
                self._drop(self.path)

    def clear(self) -> None:
        with self._locked("lower the shield"):
            self._lower()
            self._drop(self.shield)

    def restarts(self) -> int:
        try:
            return (self._state / RESTARTS.name).stat().st_size
        except FileNotFoundError:
            return 0

    def _raise(self) -> None:
        self._drop(self._fresh)
        own, found, moved = self._inode(self.shield), self._inode(self.path), self._inode(self.runtime)
        if own is None or not accepts(self.shield):
            raise StepFailed("cannot raise the shield because its process does not accept connections")
        if found == own:
            if moved is None:
                raise StepFailed(f"the shield is at {self.path}, and the runtime's own socket is gone")
            return
        if moved is None or not accepts(self.runtime):
            self._name_runtime(moved)
        self._adopt()
        self._system.link(self.shield, self._fresh)
        if self._inode(self.path) != found:
            raise StepFailed(f"cannot raise the shield because the runtime has just taken {self.path} back")
        self._system.rename(self._fresh, self.path)

    def _name_runtime(self, earlier: Inode | None) -> None:
        """Give the socket at the runtime's path the name under which the shield finds it."""
        if not accepts(self.path):
            raise StepFailed(f"cannot raise the shield because the runtime does not accept connections at {self.path}")
        self._system.link(self.path, self._fresh)
        self._system.rename(self._fresh, self.runtime)
        if earlier is not None:
            append(self._state / RESTARTS.name, b"\n")

    def _lower(self) -> None:
        self._drop(self._fresh)
        end = time.monotonic() + self._patience
        while not self._is_lowered():
            if time.monotonic() > end:
                raise StepFailed(f"cannot lower the shield because the runtime of {self.path} does not answer")
            time.sleep(LOOK_SECONDS)

    def _is_lowered(self) -> bool:
        """Lower the shield if that is possible now; report whether it is lowered."""
        found, moved, own = (self._inode(path) for path in (self.path, self.runtime, self.shield))
        if moved is None:
            return found is None or found != own
        # Renaming one name of a file over another one of its names would change nothing, and leave both.
        if found != moved and accepts(self.runtime):
            self._system.rename(self.runtime, self.path)
        elif found is None or found == moved or (found != own and accepts(self.path)):
            self._system.unlink(self.runtime)
        else:
            return False
        return True

    def _adopt(self) -> None:
        """Give the shield's socket the mode, owner and security label of the runtime's."""
        pattern, own = self._system.stat(self.runtime), self._system.stat(self.shield)
        if (own.st_uid, own.st_gid) != (pattern.st_uid, pattern.st_gid):
            self._system.chown(self.shield, pattern.st_uid, pattern.st_gid)
        self._system.chmod(self.shield, stat.S_IMODE(pattern.st_mode))
        for name in carried_attributes(self.runtime, self._system.listxattr):
            self._system.setxattr(self.shield, name, self._system.getxattr(self.runtime, name))

    def _inode(self, path: Path) -> Inode | None:
        try:
            status = self._system.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.unlink(path)

    @contextlib.contextmanager
    def _locked(self, what: str) -> Iterator[None]:
        """Lock out other processes; the kernel releases the lock of a process that dies."""
        try:
            descriptor = os.open(self._state / LOCK.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StepFailed(f"cannot {what} because {error}") from error


class HostShield(Exchange, ShieldRecords):
    """Implements Shield.

    Args:
        path: path of the runtime's socket, as this process sees it.
        state: the node's ``/run``, as this process sees it.
    """

    def __init__(self, path: Path, state: Path = STATE) -> None:
        Exchange.__init__(self, path, state)
        ShieldRecords.__init__(self, state)

    def ready(self) -> bool:
        return super().ready() and accepts(self._state / CALLS)

    def raise_up(self) -> None:
        if not accepts(self._state / CALLS):
            raise StepFailed(f"cannot raise the shield because it can pass on nothing: {self._state / CALLS} is gone")
        super().raise_up()

    def waiting(self) -> int:
        waiting = super().waiting()
        return waiting if waiting and self.ready() else 0  # a process that has ended holds no calls back
