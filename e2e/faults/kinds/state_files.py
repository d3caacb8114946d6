"""What a pod with the kubelet's directory of device plugins may put in place of the kubelet's own files there."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelet.state_files.checksums import device_checksum
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at
from nodeupgrade.node.journal.journal import Mark

RECORD = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
SECRET = "/root/secret-of-the-node"  # noqa: S105 - a path
GIVEN = {"PodDeviceEntries": None, "RegisteredDevices": {"example.com/gpu": ["0"]}}
SOUND = json.dumps({"Data": GIVEN, "Checksum": device_checksum(GIVEN)})
WORDS = "content of a file that only root may read"
LOOK_SECONDS = 5.0
Put = Callable[[Path], None]


def link(path: Path) -> None:
    path.symlink_to(SECRET)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 400 * 1024**2)


def swapped(put: Put, moment: Failpoint) -> Harm:
    """Exchange the record at a moment at which no kubelet runs; no kubelet may meet what was put there."""

    def harm(run: FaultRun) -> Iterator[None]:
        node = run.cluster.node
        record = node.root / RECORD.lstrip("/")
        node.write(SECRET, WORDS)
        node.exec("chmod", "600", SECRET)
        node.write(RECORD, SOUND)
        try:
            with run.armed(moment, "hang"):
                yield
                run.wait_hit(moment)
                record.unlink()
                put(record)
                run.release(moment)
                wait_until("the end of the run", lambda: run.journal().finished, timeout=300)
                _judge(run, record)
                yield
        finally:
            with suppress(FileNotFoundError):
                record.unlink()
            node.exec("rm", "-f", SECRET)

    return harm


def _judge(run: FaultRun, record: Path) -> None:
    time.sleep(LOOK_SECONDS)
    undone = run.journal().first(Step.SAVE_STATE, Mark.UNDONE)
    if undone is not None:
        run.notes.append(undone.error or "nothing said")
        if RECORD not in (undone.error or ""):
            raise LabError(f"the journal says nothing about {RECORD}")
    now = record.read_text() if record.is_file() and not record.is_symlink() else None
    if now != SOUND or record.lstat().st_mode & 0o7777 != 0o600:
        raise LabError(f"the record is not what it was: {now!r}")
    for each in record.parent.rglob("*"):
        if each.is_file() and not each.is_symlink() and WORDS.encode() in each.read_bytes()[:4096]:
            raise LabError(f"{each} has the secret")


def in_place_of_socket(put: Put, moment: Failpoint, said_by: tuple[Step, Mark]) -> Harm:
    """Put something in the place of the socket at a moment at which no kubelet runs; the kubelet's own comes back."""

    def harm(run: FaultRun) -> Iterator[None]:
        socket = run.cluster.node.root / SOCKET.lstrip("/")
        with run.armed(moment, "hang"):
            yield
            run.wait_hit(moment)
            socket.unlink(missing_ok=True)
            put(socket)
            run.release(moment)
            wait_until("the end of the run", lambda: run.journal().finished, timeout=300)
            run.cluster.node.wait_kubelet_healthy()
            said = next((r.error or "" for r in run.journal().records if (r.step, r.mark) == said_by), "")
            run.notes.append(said or "nothing said")
            if SOCKET not in said:
                raise LabError(f"the journal says nothing about {SOCKET}")
            if not socket.is_socket():
                raise LabError(f"{SOCKET} is not the kubelet's")
            yield

    return harm


NOT_STARTED, STARTED_AGAIN = (Step.START_KUBELET, Mark.FAILED), (Step.STOP_KUBELET, Mark.UNDONE)
STOPPED, ON_THE_WAY_BACK = at(Step.STOP_KUBELET, When.DONE), at(Step.SAVE_STATE, When.UNDOING)

FAULTS = (
    Fault("state/link-once-stopped", swapped(link, STOPPED), UP),
    Fault("state/link-on-the-way-back", swapped(link, ON_THE_WAY_BACK), BACK),
    Fault("state/pipe-once-stopped", swapped(os.mkfifo, STOPPED), UP),
    Fault("state/pipe-on-the-way-back", swapped(os.mkfifo, ON_THE_WAY_BACK), BACK),
    Fault("state/sparse-on-the-way-back", swapped(sparse, ON_THE_WAY_BACK), BACK),
    Fault("state/socket-pipe-once-stopped", in_place_of_socket(os.mkfifo, STOPPED, NOT_STARTED), BACK),
    Fault("state/socket-link-once-stopped", in_place_of_socket(link, STOPPED, NOT_STARTED), BACK),
    Fault("state/socket-taken-on-the-way-back", in_place_of_socket(Path.mkdir, ON_THE_WAY_BACK, STARTED_AGAIN), BACK),
)
