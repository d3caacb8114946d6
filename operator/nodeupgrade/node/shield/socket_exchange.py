"""The exchange of sockets: which socket a kubelet finds at the path of the runtime's.

Three names lie in one directory: the runtime's path, the shield's own socket, and another name of the runtime's
socket, which exists exactly for as long as the shield is meant to be raised. Each change is one rename, so there is
no moment without a socket, and whoever is killed between two system calls leaves a state that the next raise or lower
completes.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.atomic import carried_attributes
from nodeupgrade.node.runtimes.description import RUNTIME_SOCKET, SHIELD_SOCKET
from nodeupgrade.node.shield.records import ShieldRecords, append
from nodeupgrade.node.shield.rules import LOCK, RESTARTS
from nodeupgrade.node.shield.socket_renaming import System, accepts

Inode: TypeAlias = tuple[int, int]

PATIENCE = 3.0
"""Seconds for which lower() waits for a runtime that is just being restarted."""
LOOK_SECONDS = 0.05


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
        """Report whether the runtime's path leads to the shield's socket, even if nobody accepts connections there."""
        found, kept = self._inode(self.path), self._inode(self.runtime)
        if found is None or kept is None or found == kept:
            return False
        return found == self._inode(self.shield) or not accepts(self.path)

    def stands_by(self) -> bool:
        """Report whether the path is free for a runtime that starts, from which it is taken again."""
        return self.intended() and self.ready() and self._inode(self.path) is None

    def upstream(self) -> Path:
        """Return the path at which the runtime's own socket is now."""
        return self.runtime if self._inode(self.path) in {None, self._inode(self.shield)} else self.path

    def look(self) -> tuple[int, ...] | None:
        """Return the looks of a socket at the runtime's path that should be the shield's; ``None`` if there is none.

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
        """Leave the runtime's path, if the runtime has ended, to one that starts; the shield stays meant to be raised.

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
        own, found, kept = self._inode(self.shield), self._inode(self.path), self._inode(self.runtime)
        if own is None or not accepts(self.shield):
            raise StepFailed("cannot raise the shield because its process does not accept connections")
        if found == own:
            if kept is None:
                raise StepFailed(f"the shield is at {self.path}, and the runtime's own socket is gone")
            return
        if kept is None or not accepts(self.runtime):
            self._keep(kept)
        self._adopt()
        self._system.link(self.shield, self._fresh)
        if self._inode(self.path) != found:
            raise StepFailed(f"cannot raise the shield because the runtime has just taken {self.path} back")
        self._system.rename(self._fresh, self.path)

    def _keep(self, earlier: Inode | None) -> None:
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
        found, kept, own = (self._inode(path) for path in (self.path, self.runtime, self.shield))
        if kept is None:
            return found is None or found != own
        # Renaming one name of a file over another one of its names would change nothing, and leave both.
        if found != kept and accepts(self.runtime):
            self._system.rename(self.runtime, self.path)
        elif found is None or found == kept or (found != own and accepts(self.path)):
            self._system.unlink(self.runtime)
        else:
            return False
        return True

    def _adopt(self) -> None:
        """Give the shield's socket mode, owner and security label of the runtime's."""
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
        """Keep others from exchanging sockets meanwhile; the kernel ends the lock of a process that dies."""
        try:
            descriptor = os.open(self._state / LOCK.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StepFailed(f"cannot {what} because {error}") from error


STATE = Path("/run")


class HostShield(Exchange, ShieldRecords):
    """Implements ports.shield.Shield.

    Args:
        socket: path of the runtime's socket, as this process sees it.
        state: the node's ``/run``, as this process sees it.
    """

    def __init__(self, socket: Path, state: Path = STATE) -> None:
        Exchange.__init__(self, socket, state)
        ShieldRecords.__init__(self, state)

    def waiting(self) -> int:
        waiting = super().waiting()
        return waiting if waiting and self.ready() else 0  # a process that ended holds none
