"""A monitor that answers the restarted runtime late.

containerd asks each shim, and gives up those that do not answer: with the run's raised timeout, and without it as the
control. CRI-O asks no conmon: late, and as the control never in the whole run.
"""

import contextlib
import time
from collections.abc import Iterator

from e2e.changes import restart_runtime
from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import ContainerInstance
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.runtimes.containerd.command_line import TUNED_CONFIG as CONFIG

LATE_SECONDS = 8.0
"""Longer than containerd's default timeout for shims of five seconds."""
PATIENT: dict[str, object] = {"verify": {"settle": "4s", "kubeletDownBudget": "90s"}}
ODD_START = "/etc/systemd/system/containerd.service.d/50-odd.conf"
"""Starts containerd as its own unit does, but in an unusual way."""


def late_shim(*, raised: bool) -> Harm:
    """Freeze the shim of one pod right before the runtime is restarted, and for some seconds after."""

    def harm(run: FaultRun) -> Iterator[None]:
        name, node = at(Step.REWRITE_HASHES, When.DONE), run.cluster.node
        if not node.runtime.shares_monitors:
            yield from _frozen_conmon(run, answers=raised)
            return
        with run.armed(name, "hang"), contextlib.nullcontext() if raised else _odd_start(run):
            victim, shim = _victim(run)
            if not raised:
                run.free.add(victim.pod)
            yield
            run.wait_hit(name)
            before = _main_pid(run)
            with _frozen(node, shim):
                run.release(name)
                pid = wait_until("another containerd", lambda: _main_pid(run, other_than=before), timeout=60)
                command = (node.root / "proc" / pid / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                time.sleep(LATE_SECONDS)
            run.notes.append(f"restarted as {command.strip()}")
            if (str(CONFIG) in command) is not raised:
                raise LabError(f"the limit is {'not ' if raised else ''}raised: {command}")
            yield
            _look_at(run, victim, lost=not raised)

    return harm


@contextlib.contextmanager
def _frozen(node: Node, pid: str) -> Iterator[None]:
    node.exec("kill", "-STOP", pid)
    try:
        yield
    finally:
        node.exec("kill", "-CONT", pid, check=False)


def _victim(run: FaultRun) -> tuple[ContainerInstance, str]:
    """Return a container, and the PID of its monitor."""
    node = run.cluster.node
    victim = next(c for c in node.snapshot().running() if c.pod.startswith("workload/web-"))
    return victim, node.exec("ps", "-o", "ppid=", "-p", str(victim.pid)).stdout.strip()


def _frozen_conmon(run: FaultRun, *, answers: bool) -> Iterator[None]:
    """Freeze the conmon of one container while the runtime is restarted, or until the run is over."""
    name, node = at(Step.REWRITE_HASHES, When.DONE), run.cluster.node
    with run.armed(name, "hang"):
        victim, conmon = _victim(run)
        yield
        run.wait_hit(name)
        before = _main_pid(run)
        with _frozen(node, conmon):
            run.release(name)
            wait_until("another daemon", lambda: _main_pid(run, other_than=before), timeout=60)
            if answers:
                time.sleep(LATE_SECONDS)
            else:
                yield
            state = node.exec("ps", "-o", "stat=", "-p", conmon).stdout.strip()
        run.notes.append(f"conmon was {state}")
        if not state.startswith("T"):
            raise LabError(f"conmon {conmon} was not frozen but {state}: this proves nothing")
        if answers:
            yield
        _look_at(run, victim, lost=False)


def _look_at(run: FaultRun, victim: ContainerInstance, *, lost: bool) -> None:
    """Check that the container is lost without the raised timeout; with it, the oracle has found no change."""
    survived = any(c.id == victim.id for c in run.cluster.node.snapshot().running())
    if survived is lost:
        raise LabError(f"{victim.pod} {'survived: this proves nothing' if survived else 'was lost'}")


def _main_pid(run: FaultRun, *, other_than: str = "") -> str:
    node = run.cluster.node
    pid = node.exec("systemctl", "show", node.runtime.unit, "--property=MainPID", "--value").stdout.strip()
    return "" if pid in {"0", other_than} else pid


@contextlib.contextmanager
def _odd_start(run: FaultRun) -> Iterator[None]:
    node = run.cluster.node
    node.write(ODD_START, "[Service]\nExecStart=\nExecStart=/usr/bin/containerd $NO_OPTIONS\n")
    node.exec("systemctl", "daemon-reload")
    restart_runtime(run.cluster.node)  # a start with changes that are not loaded yet would be refused
    try:
        yield
    finally:
        node.exec("rm", ODD_START)
        node.exec("systemctl", "daemon-reload")
        restart_runtime(run.cluster.node)


FAULTS: tuple[Fault, ...] = (
    Fault("shim/late", late_shim(raised=True), UP, spec=PATIENT),
    Fault("shim/late-control", late_shim(raised=False), BACK, spec=PATIENT, elsewhere={"crio": UP}),
)
