"""The executor is killed or stopped, or the node's power is cut, as soon as the journal has a record."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

from e2e.faults.fault import BACK, EITHER, UP, Fault
from e2e.faults.run import EXECUTOR, FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.process import PATIENCE
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.node.failpoints.failpoints import RUNTIME_RESTARTED, Failpoint, When, at
from nodeupgrade.node.journal.journal import Mark

FROZEN_SECONDS = 20.0
"""A frozen executor must be gone by then, and a healthy kubelet back."""
FROZEN = (
    at(Step.STOP_KUBELET, When.DONE), at(Step.REWRITE_HASHES, When.DONE), RUNTIME_RESTARTED,
    at(Step.SWAP_BINARY, When.DONE), at(Step.STOP_KUBELET, When.UNDOING),
)  # fmt: skip
DELETED = (at(Step.ARM_DEAD_MAN, When.DONE), at(Step.STOP_KUBELET, When.DONE), at(Step.VERIFY, When.ANNOUNCED))
OUR_UNITS = ("/etc/systemd/system/nodeupgrade-*", "/run/systemd/system/nodeupgrade-*")


def kill_after_the_end(run: FaultRun) -> Iterator[None]:
    """Kill the executor while it cleans up."""
    yield
    run.wait_record(None, Mark.FINISHED)
    run.kill_executor()
    yield


def kill_after_every_record(run: FaultRun) -> Iterator[None]:
    """Kill the executor after each record that it writes."""
    yield
    run.wait_record(Step.CONFIRM_BINARIES, Mark.DOING)
    seen = killed = 0
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        journal = run.journal()
        if len(journal.records) > seen:
            seen = len(journal.records)
            killed += run.kill_unit(EXECUTOR) > 0
        if journal.finished:
            break
        time.sleep(0.0005)
    run.notes.append(f"killed {killed} times, {seen} records")
    yield


def kill_while_going_back(run: FaultRun) -> Iterator[None]:
    """Let the run fail late, and kill the executor after every record of the rollback."""
    yield
    run.wait_record(Step.VERIFY, Mark.DOING)
    run.kill_unit("kubelet.service")
    seen = len(run.journal().records)
    killed = 0
    deadline = time.monotonic() + 240
    while not (journal := run.journal()).finished and time.monotonic() < deadline:
        if len(journal.records) > seen:
            seen = len(journal.records)
            killed += run.kill_unit(EXECUTOR) > 0
        time.sleep(0.0005)
    run.notes.append(f"killed {killed} times, {seen} records")
    yield


def stop_executor(run: FaultRun) -> Iterator[None]:
    """Stop the executor's unit, which systemd does not restart by itself: the timer has to."""
    yield
    run.wait_record(Step.REWRITE_HASHES, Mark.DOING)
    run.cluster.node.exec("systemctl", "stop", EXECUTOR)
    last = run.journal().last
    run.notes.append(f"stopped after {last.step} {last.mark}" if last else "stopped")
    yield


def cut_power_after(step: Step | None, mark: Mark) -> Harm:
    """Cut the node's power right after one journal record, and boot it."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(step, mark)
        run.cut_power_and_boot()
        yield
        run.wait_workload()

    return harm


def cut_power_twice(run: FaultRun) -> Iterator[None]:
    """Cut the power with the kubelet down, and again after the rollback has begun."""
    yield
    run.wait_record(Step.SWAP_BINARY, Mark.DONE)
    run.cut_power_and_boot()
    run.wait_record(Step.REWRITE_HASHES, Mark.UNDOING)
    run.cut_power_and_boot()
    yield
    run.wait_workload()


def frozen_at(name: Failpoint) -> Harm:
    """Freeze the executor at a failpoint, as a debugger does, and never thaw it."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            began, frozen = time.monotonic(), run.processes(EXECUTOR)
            run.kill_unit(EXECUTOR, signal.SIGSTOP)
            try:
                gone = _seconds_until(began, lambda: not frozen & run.processes(EXECUTOR))
                well = _seconds_until(began, run.cluster.node.kubelet_healthy)
            finally:
                for pid in frozen & run.processes(EXECUTOR):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                run.release(name)
            run.notes.append(f"ended after {gone:.1f} s frozen, a healthy kubelet after {well:.1f} s")
            yield

    return harm


def _seconds_until(began: float, holds: Callable[[], bool]) -> float:
    while not holds():
        if time.monotonic() > began + FROZEN_SECONDS * PATIENCE:
            raise LabError(f"a frozen executor is left alone for {FROZEN_SECONDS * PATIENCE:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began


def units_deleted_at(name: Failpoint) -> Harm:
    """Delete the files of all our units at a failpoint, as a cleaning tool does, and have systemd read its files."""

    def harm(run: FaultRun) -> Iterator[None]:
        node = run.cluster.node
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            node.exec("sh", "-c", f"rm -f {' '.join(OUR_UNITS)}; systemctl daemon-reload")
            run.release(name)
            yield
        listed = node.exec("systemctl", "list-units", "--all", "--plain", "--no-legend", "nodeupgrade-*").stdout
        running = [line.split()[0] for line in listed.splitlines() if line.split()[2] not in {"inactive", "failed"}]
        if running:
            raise LabError(f"left running: {', '.join(running)}")

    return harm


def run_directory_cleaned_at(name: Failpoint) -> Harm:
    """Remove everything of ours in /run at a failpoint, as a cleaning tool does."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            run.cluster.node.exec("sh", "-c", "rm -rf /run/nodeupgrade*")
            run.release(name)
            yield

    return harm


CLEANED = (at(Step.STOP_KUBELET, When.DONE), at(Step.SWAP_BINARY, When.DONE), at(Step.SWAP_BINARY, When.UNDOING))

FAULTS: tuple[Fault, ...] = (
    *(Fault(f"executor/frozen-{name}", frozen_at(name), EITHER) for name in FROZEN),
    *(Fault(f"units/deleted-{name}", units_deleted_at(name), EITHER) for name in DELETED),
    *(Fault(f"units/cleaned-{name}", run_directory_cleaned_at(name), EITHER) for name in CLEANED),
    Fault("none", lambda _ordeal: iter((None, None)), UP),
    Fault("kill/finished", kill_after_the_end),
    Fault("kill/every-record", kill_after_every_record, spec={"verify": {"settle": "4s", "kubeletDownBudget": "150s"}}),
    Fault("kill/going-back", kill_while_going_back, BACK),
    Fault("kill/systemctl-stop", stop_executor),
    Fault("power/committed", cut_power_after(COMMIT, Mark.DONE), frozenset({"Succeeded", "Failed"}), reboots=True),
    Fault("power/finished", cut_power_after(None, Mark.FINISHED), UP, reboots=True),
    Fault("power/twice", cut_power_twice, BACK, reboots=True),
)
