"""Holds back every start of dockerd while its files are written, so that the socket which systemd opens can stay open.

Whoever connects to that socket has systemd start dockerd. A start that is refused would close the socket, and with it
every mount of its file. So a start is made to wait instead: dockerd's unit is ordered after another one, the gate,
which is starting for as long as this process holds a lock. The kernel ends the lock of a process that dies. The units
are ordered by a drop-in that exists only during a run.
"""

import fcntl
import os
from pathlib import PurePosixPath

from nodeupgrade.adapters.docker.kind import GATE_DROP_IN, GATE_FILE, GATE_LOCK, SOCKET_UNIT
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import RestartTuning, TuningFile
from nodeupgrade.ports.node.files import FilesView
from nodeupgrade.ports.node.services import ServiceManager, ServicesView

FLOCK = "/usr/bin/flock"
SECONDS = 60
"""How long a start may be held back; files are written within a second."""
GATE = GATE_FILE.name
HEAD = "# Written by nodeupgrade for the time of one run."
UNIT_TEXT = f"""{HEAD}
[Unit]
Description=nodeupgrade: holds back starts of Docker while its files are written
CollectMode=inactive-or-failed

[Service]
Type=oneshot
ExecStart={FLOCK} --timeout {SECONDS} {GATE_LOCK} /bin/true
TimeoutStartSec={SECONDS + 10}
"""
DROP_IN_TEXT = f"{HEAD}\n[Unit]\nAfter={GATE}\n"
HELD = "activating"


def find(files: FilesView, services: ServicesView) -> RestartTuning:
    """Return the units with which starts can be held back; none if systemd does not open dockerd's socket."""
    socket = services.status(SOCKET_UNIT)
    if socket.load_state != "loaded" or socket.active_state != "active":
        return RestartTuning(why=f"{SOCKET_UNIT} is not active, so that dockerd makes its socket itself")
    if not files.executable(PurePosixPath(FLOCK)):
        return RestartTuning(why=f"{SOCKET_UNIT} is stopped together with dockerd, since there is no {FLOCK}")
    return RestartTuning(
        why=f"{SOCKET_UNIT} stays open while dockerd is stopped",
        files=(
            TuningFile(path=str(GATE_DROP_IN), content=DROP_IN_TEXT.encode()),
            TuningFile(path=str(GATE_FILE), content=UNIT_TEXT.encode()),
        ),
    )


class Gate:
    """The gate of one node.

    Args:
        files: the node's files.
        services: the node's units.
    """

    def __init__(self, files: HostFiles, services: ServiceManager) -> None:
        self._lock = files.seen(GATE_LOCK)
        self._services = services
        self._held: int | None = None

    def close(self) -> bool:
        """Hold back starts of dockerd from now on, and report whether they are; not without the run's drop-in.

        Raises:
            StepFailed: the lock cannot be taken.
        """
        if self._services.status(GATE).load_state != "loaded":
            return False
        if self._held is None:
            self._held = self._locked()
            self._services.start(GATE, wait=False)
        return self._services.status(GATE).active_state == HELD

    def open(self) -> None:
        """Let dockerd be started."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _locked(self) -> int:
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
        except OSError as error:
            raise StepFailed(f"cannot hold back starts of dockerd because {error}") from error
        return descriptor
