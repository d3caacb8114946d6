"""What a pod that may read a file, and no more, does with it: it locks what a starting runtime or executor locks."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

from e2e.faults.fault import BACK, EITHER, UP, Fault, is_containerd
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark

FILES = {
    "crio": "/var/lib/containers/storage/overlay-layers/layers.lock",
    "docker": "/var/lib/docker/network/files/local-kv.db",
}
DATABASE = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
WAITS = "exec flock {file} sleep 3600"
TAKES = "until flock -n {file} sleep 3600; do :; done"
"""Leaves no trace before it has the lock."""
TAKES_STORAGE = """exec perl -e '1 while -d "/proc/$ARGV[0]"; open my $f, "<", $ARGV[1] or die; my $read = \
pack("ssx4qqlx4", 0, 0, 0, 0, 0); fcntl($f, 7, $read) or die; sleep 3600' \
"$(systemctl show --property=MainPID --value crio)" {file}"""
"""A lock of fcntl(2) for reading, once CRI-O has ended: no CRI-O can write there."""


def waits_before(run: FaultRun) -> Iterator[None]:
    """Wait for the runtime's lock from before the examination on, until the node is refused for it."""
    with _in_node(run, WAITS, _of_runtime(run)):
        yield
        wait_until("a refusal", lambda: run.phase() == "Refused", timeout=180, interval=0.5)
        if "or waits for it" not in str(run.status()):
            raise LabError(f"it is not named: {run.status()}")
    yield


def once_stopped(run: FaultRun) -> Iterator[None]:
    """Wait for the runtime's lock once the kubelet is stopped: the runtime is not restarted, and the run repeated."""
    moment = at(Step.STOP_KUBELET, When.DONE)
    with run.armed(moment, "hang"):
        yield
        run.wait_hit(moment)
        with _in_node(run, WAITS, _of_runtime(run)):
            run.release(moment)
            run.wait_record(None, Mark.FINISHED)
            end = run.journal().finished
            if "has locked" not in str(end and end.payload):
                raise LabError(f"it is not named: {end}")
    yield


def at_the_restart(run: FaultRun) -> Iterator[None]:
    """Take the lock as soon as the runtime ends in its restart, and keep it to the end of the run."""
    moment = at(Step.RESTART_RUNTIME, When.ANNOUNCED)
    takes = TAKES_STORAGE if run.cluster.node.runtime.name == "crio" else TAKES
    with run.armed(moment, "hang"):
        yield
        run.wait_hit(moment)
        with _in_node(run, takes, _of_runtime(run)):
            run.release(moment)
            run.wait_record(None, Mark.FINISHED, timeout=400)
            held = [each.error or "" for each in run.journal().records if each.mark is Mark.HELD]
            if not any("was restarted with copies in their places" in each for each in held):
                raise LabError(f"it was held by something else: {held}")
    yield


def journal(moment: Step) -> Harm:
    """Wait for the lock of the run's journal, and have the executor that has it killed."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(moment, Mark.DOING)
        own = max({path.name for path in run.runs()} - run.runs_before)
        path = f"/var/lib/nodeupgrade/runs/{own}/journal"
        with _in_node(run, WAITS, path):
            before = (run.cluster.node.root / path.lstrip("/")).stat().st_ino
            run.kill_executor()
            run.wait_record(None, Mark.FINISHED, timeout=400)
            if (run.cluster.node.root / path.lstrip("/")).stat().st_ino == before:
                raise LabError("the journal was locked by nobody else")
        yield

    return harm


def _of_runtime(run: FaultRun) -> str:
    return FILES.get(run.cluster.node.runtime.name, DATABASE)


@contextlib.contextmanager
def _in_node(run: FaultRun, command: str, file: str) -> Iterator[None]:
    """Run a command in a node until the context ends, from when on it has the file open."""
    inside = ("nsenter", "-t", str(run.cluster.node.pid), "--pid", "--mount", "--", "sh", "-c")
    process = subprocess.Popen([*inside, command.format(file=file)], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


FAULTS: tuple[Fault, ...] = (
    Fault("lock/waits-before", waits_before, UP, needs=is_containerd),
    Fault("lock/once-stopped", once_stopped, EITHER, needs=is_containerd),
    Fault("lock/at-the-restart", at_the_restart, BACK),
    *(Fault(f"lock/journal-{step}", journal(step), EITHER) for step in (Step.STOP_KUBELET, Step.SWAP_BINARY)),
)
