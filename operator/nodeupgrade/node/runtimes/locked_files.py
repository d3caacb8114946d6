"""Files that a runtime locks when it starts, of which another process has a lock: the runtime would wait for that."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.files.files import FilesView


def locked_by_others(
    files: FilesView, paths: Iterable[PurePosixPath], own: int, *, writers: bool = True
) -> Iterator[tuple[PurePosixPath, int]]:
    """Yield the files of which another process than the runtime, whose PID is ``own``, has a lock or waits for one.

    Args:
        files: of the node.
        paths: of the files.
        own: the runtime's main process.
        writers: as for FilesView.lockers().

    Raises:
        StepFailed: who locks files cannot be read.
    """
    for path, pids in files.lockers(paths, writers=writers).items():
        if others := [pid for pid in pids if pid != own]:
            yield path, others[0]


def named(path: PurePosixPath, pid: int) -> str:
    """Say which process keeps a runtime waiting."""
    return f"{'a process' if pid < 0 else f'process {pid}'} has locked {path}, or waits for it"


def locked_hazards(files: FilesView, paths: Iterable[PurePosixPath], own: int) -> Iterator[Finding]:
    """Yield a finding for each file of which another process has a lock.

    A starting runtime waits for its databases without end (``bolt.Open`` without a timeout), or for the locks of its
    storage. It is enough to read a file to lock it.
    """
    for path, pid in locked_by_others(files, paths, own):
        yield Finding(
            reason=Reason.RUNTIME_NOT_READY,
            detail=f"{named(path, pid)}, so a runtime that starts would not answer",
            remedy="end that process, or delete its pod; let no pod mount a runtime's directories, even to read them",
        )
