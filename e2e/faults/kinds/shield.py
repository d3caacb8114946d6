"""The shield's process or the runtime behind it dies under the raised shield, or the shield is all that is left.

Where the kubelet wants to end containers, the rows prove it: without a refused call they are broken.
"""

import json
import time
from collections.abc import Callable, Iterator

from e2e.faults.fault import BACK, EITHER, Fault
from e2e.faults.kinds.failpoints import lose_bundle
from e2e.faults.run import FaultRun, Harm
from e2e.faults.tamper import planned_wrong_hashes
from e2e.lab import LabError
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED, SHIELD_RAISED, Failpoint, When, at
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.shield.shield import REFUSED

SHIELD = "nodeupgrade-shield.service"
PAUSE_SECONDS = 0.5
HELD_SECONDS = 12.0
PATIENT: dict[str, object] = {"verify": {"settle": "4s", "kubeletDownBudget": "90s"}}
WATCHED: dict[str, object] = {"verify": {"settle": "15s", "kubeletDownBudget": "90s"}}

Kill = Callable[[FaultRun], int]


def shield_process(run: FaultRun) -> int:
    """Kill the shield's process; return how many processes that were."""
    return run.kill_unit(SHIELD)


def runtime(run: FaultRun) -> int:
    """Kill the runtime alone, whose shims share its cgroup; return how many processes that were."""
    return run.kill_runtime()


def killed_at(name: Failpoint, kill: Kill) -> Harm:
    """Kill while the executor hangs at a failpoint, which it leaves at once."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            _note(run, kill(run))
            run.release(name)
            yield

    return harm


def killed_while_watched(kill: Kill, *, times: int = 1) -> Harm:
    """Kill while the new kubelet is watched, once or again and again."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(Step.VERIFY, Mark.DOING)
        killed = 0
        for _ in range(times):
            time.sleep(PAUSE_SECONDS)
            killed += kill(run)
        _note(run, killed)
        if run.journal().first(Step.VERIFY, Mark.DONE):
            raise LabError("the kubelet was verified before that: this proves nothing")
        yield

    return harm


def runtime_restarted(run: FaultRun) -> Iterator[None]:
    """Restart the runtime as an administrator does, while the new kubelet is watched."""
    yield
    run.wait_record(Step.VERIFY, Mark.DOING)
    run.cluster.node.exec("systemctl", "restart", run.cluster.node.runtime.unit, timeout=60)
    yield


def killed_while_holding(kill: Kill) -> Harm:
    """Let all hashes be wrong, and kill again and again while the new kubelet wants to end every container."""

    def harm(run: FaultRun) -> Iterator[None]:
        with planned_wrong_hashes(run.cluster), run.armed(KUBELET_STARTED, "hang"):
            yield
            run.wait_hit(KUBELET_STARTED)
            wait_for_refusals(run)
            killed, end = 0, time.monotonic() + HELD_SECONDS
            while time.monotonic() < end:
                killed += kill(run)
                time.sleep(PAUSE_SECONDS)
            _note(run, killed)
            wait_for_refusals(run, more_than=len(refused(run)))
            run.release(KUBELET_STARTED)
            yield

    return harm


def rescued(run: FaultRun) -> Iterator[None]:
    """Lose bundle, agent, executor and the shield's process at once: only the rescue script can put the socket back."""
    name = at(Step.START_KUBELET, When.ANNOUNCED)
    with run.armed(name, "hang"):
        yield
        run.wait_hit(name)
        lose_bundle(run)
        _note(run, shield_process(run))
        run.kill_executor()
        yield


def refused(run: FaultRun) -> list[str]:
    """Return what the shield has refused so far."""
    try:
        lines = (run.cluster.node.root / str(REFUSED).lstrip("/")).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [f"{call['wanted']} {call['label']}" for call in map(json.loads, lines)]


def wait_for_refusals(run: FaultRun, *, more_than: int = 0) -> None:
    """Return once the shield has refused that many calls: so the harm happens, and is held off."""
    wait_until("a call that the shield refuses", lambda: len(refused(run)) > more_than, timeout=60, interval=0.05)
    run.notes.append(f"{len(refused(run))} calls refused for {len(set(refused(run)))} instances")


def _note(run: FaultRun, killed: int) -> None:
    if not killed:
        raise LabError("there was nothing to kill: this proves nothing")
    run.notes.append(f"{killed} killed")


FAULTS: tuple[Fault, ...] = (
    Fault("shield/killed-raised", killed_at(SHIELD_RAISED, shield_process), EITHER),
    Fault("shield/killed-starting", killed_at(KUBELET_STARTED, shield_process), EITHER),
    Fault("shield/killed-watched", killed_while_watched(shield_process), EITHER, spec=WATCHED),
    Fault("shield/killed-again", killed_while_watched(shield_process, times=15), EITHER, spec=WATCHED),
    Fault("shield/killed-holding", killed_while_holding(shield_process), BACK, spec=PATIENT),
    Fault("shield/runtime-killed", killed_while_watched(runtime), EITHER, spec=WATCHED),
    Fault("shield/runtime-restarted", runtime_restarted, EITHER, spec=WATCHED),
    Fault("shield/runtime-killed-holding", killed_while_holding(runtime), BACK, spec=PATIENT),
    Fault("shield/rescued", rescued, BACK),
)
