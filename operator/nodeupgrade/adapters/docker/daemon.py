"""The running dockerd: its process, its directories, and what it says against a restart."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.adapters.docker.client import Document
from nodeupgrade.adapters.proc.processes import INIT, ProcessTable
from nodeupgrade.adapters.proc.sockets import listening
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import RuntimeKind, RuntimeProcess
from nodeupgrade.ports.files import FilesView

OLDEST = (18, 9)
LIVE_RESTORE_OFF = (
    "live-restore is not in effect, so stopping it would end every container; set live-restore to true in its "
    "daemon.json, reload the unit, and restart it once at a time of your choice"
)


def listener(
    endpoint: PurePosixPath, main_pid: int, processes: ProcessTable, files: FilesView
) -> RuntimeProcess | None:
    """Return the process that serves a socket; ``None`` if that cannot be told.

    systemd listens, and passes the socket on, so that the kernel names systemd as the peer. What tells is who has the
    socket open besides.
    """
    for inode in _listening(endpoint, processes, files):
        target = f"socket:[{inode}]"
        if main_pid and processes.has_open(main_pid, target):
            return _process(main_pid, processes)
        others = [pid for pid in processes.holders(target) if pid != INIT]
        if others:
            return _process(others[0], processes)
    return None


def require_live_restore(info: Document) -> None:
    """Check that containers survive the end of dockerd.

    Raises:
        StepFailed: they would not.
    """
    if info.get("LiveRestoreEnabled") is not True:
        raise StepFailed(f"dockerd was not stopped: {LIVE_RESTORE_OFF}")


def objections(info: Document, version: tuple[int, ...]) -> Iterator[str]:
    """Yield what speaks against a restart of this dockerd."""
    if info.get("LiveRestoreEnabled") is not True:
        yield LIVE_RESTORE_OFF
    swarm = info.get("Swarm")
    state = swarm.get("LocalNodeState", "") if isinstance(swarm, dict) else ""
    if state not in {"", "inactive"}:
        yield f"it belongs to a swarm ({state}), whose containers do not survive a restart; leave the swarm"
    if version[:2] < OLDEST:
        yield f"it is older than {OLDEST[0]}.{OLDEST[1]:02}, and nobody has tried whether it keeps its containers"


def _listening(endpoint: PurePosixPath, processes: ProcessTable, files: FilesView) -> Iterator[int]:
    """Yield the inodes of the sockets that listen at a path, which may have been bound by another name of it."""
    for inode, bound in listening(processes.text(INIT, "net/unix")):
        if bound == endpoint or (bound.name == endpoint.name and _resolved(bound, files) == endpoint):
            yield inode


def _resolved(path: PurePosixPath, files: FilesView) -> PurePosixPath | None:
    try:
        return files.socket(path)
    except StepFailed:
        return None


def _process(pid: int, processes: ProcessTable) -> RuntimeProcess | None:
    words = processes.arguments(pid)
    return RuntimeProcess(pid=pid, words=words, program=processes.program_digest(pid)) if words else None


# What is true of Docker on every node.

UNIT = "docker.service"
SOCKET_UNIT = "docker.socket"
"""Starts the service as soon as anybody connects, so that it has to be stopped, too."""

DOCKER = RuntimeKind(
    name=SupportedRuntime.DOCKER,
    unit=UNIT,
    why_no_shield="its kubelet talks to Docker in Docker's own protocol, which the shield does not understand",
    stops_for_rewriting=True,
)
