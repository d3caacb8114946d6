"""Steps of the kubelet itself: the old one is stopped, its program swapped, and the new one started and watched."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.failpoints import FENCED, KUBELET_STARTED, LOOKED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.engine.node import restart_effects, shield, start_preconditions
from nodeupgrade.engine.node.evidence import LOOK_SECONDS, are_back, require_shown
from nodeupgrade.engine.node.exchange import require_digest
from nodeupgrade.engine.node.kubelet_log import last_errors, read_log
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.steps.actions import Payload, StepActions
from nodeupgrade.engine.node.watch import Watch

FIRST_LOOK_SECONDS = 0.5
"""A kubelet takes a third of a second to start and harms nothing before, and a look would slow its start."""
LOOK_AT_KUBELET_SECONDS = 1.0
UNHEALTHY_LOOKS_TOLERATED = 5
OUTCOME_SECONDS = 60.0
"""How long after the settle period a call may wait at the shield: one that cannot be written down waits for ever."""


class StopKubelet(StepActions):
    """Fence and stop the kubelet, so that nothing else can start it."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Fence first, so that no automatic restart can happen in between."""
        node.services.mask(plan.swap.unit)
        node.failpoint(FENCED)
        node.services.stop(plan.swap.unit)

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Start the old kubelet again; everything that it reads has been restored.

        If another program starts, stop it at once: the hashes are the old kubelet's. The shield stays up until this one
        was quiet for a while (see ArmDeadMan): how it starts may have been changed meanwhile.
        """
        running = Running(node, plan, start_preconditions.require_old_program(node, plan))
        shield.raise_again(node, plan)
        node.services.unmask(plan.swap.unit)
        try:
            node.services.start(plan.swap.unit, wait=False)
            wait_until_healthy(node, plan.swap.unit, OLD_KUBELET_START_SECONDS, forgiving=True, watch=running)
            running.confirm()
        except StepFailed as error:
            if error.reason is Reason.DIGEST_MISMATCH:
                self.do(node, plan, payload)
            raise

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether the kubelet is down and fenced."""
        status = node.services.status(plan.swap.unit)
        return status.main_pid == 0 and status.fenced


class SwapBinary(StepActions):
    """Swap the kubelet program by one rename."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Put the staged program in place; the staged path stays, so that a repetition is harmless.

        Both programs must still be the confirmed ones. Digests take too long without a kubelet, so they are computed
        only if a stamp differs.
        """
        swap, confirmed = plan.swap, node.recorded(Step.CONFIRM_BINARIES) or {}
        new, either = {confirmed.get(swap.staged)}, {confirmed.get(swap.path), confirmed.get(swap.staged)}
        for path, known, promised in (
            (swap.staged, new, {swap.after}),
            (swap.path, either, {swap.before, swap.after}),  # the new one, if this is a repetition
        ):
            if node.files.stamp(PurePosixPath(path)) not in known - {None}:
                require_digest(node, path, promised)
        node.files.replace(PurePosixPath(plan.swap.staged), PurePosixPath(plan.swap.path))

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Put the backup in place."""
        node.files.replace(PurePosixPath(plan.swap.backup), PurePosixPath(plan.swap.path))

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether the program in place is the new one."""
        return node.files.digest(PurePosixPath(plan.swap.path)) == plan.swap.after


class StartKubelet(StepActions):
    """Lift the fence and start the new kubelet."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the containers that ended with the runtime: from now on, a kubelet may start them again."""
        return restart_effects.note_ended(node, plan)

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Start it and wait until it is healthy; fail early if it is the wrong program or harms a container."""
        require_shown(node, plan)
        running = Running(node, plan, start_preconditions.require_new_program(node, plan))
        node.failpoint(LOOKED)
        node.services.unmask(plan.swap.unit)
        node.services.start(plan.swap.unit, wait=False)
        node.failpoint(KUBELET_STARTED)
        seconds = min(plan.limits.kubelet_down, node.seconds)
        watch = Watch.from_now(node, plan, first_look=FIRST_LOOK_SECONDS)

        def look() -> None:
            running()
            watch()

        wait_until_healthy(node, plan.swap.unit, seconds, forgiving=False, watch=look)
        running.confirm()

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Fence and stop the new kubelet, before the files that it reads are restored."""
        node.services.mask(plan.swap.unit)
        node.services.stop(plan.swap.unit)


class Verify(StepActions):
    """Verify, for the settle period, that the new kubelet stays healthy and changes no instance.

    The first seconds are the most dangerous: every pod is admitted and synchronised again. Damage ends the step at
    once, so that the kubelet is stopped while little is lost. Nothing on the node shows that a kubelet has synchronised
    every pod: see docs/decisions/settle-period.md.
    """

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Watch containers and kubelet until the settle period is over; look thoroughly at its end."""
        watch = Watch.from_now(node, plan)
        pid = node.services.status(plan.swap.unit).main_pid
        began = next_look = node.clock.awake()
        end = next_look + plan.limits.settle
        unwell = 0
        waits_since: AwakeTime | None = None
        while True:
            if node.abort():
                raise StepFailed("the run was asked to abort while it settled", reason=Reason.ABORTED)
            watch()
            if node.clock.awake() >= next_look:
                require_same_process(node, plan, pid)
                unwell = 0 if node.kubelet.healthy() else unwell + 1
                if unwell > UNHEALTHY_LOOKS_TOLERATED:
                    raise StepFailed(
                        f"the kubelet was unhealthy in {unwell} looks in a row", reason=Reason.VERIFICATION_FAILED
                    )
                next_look += LOOK_AT_KUBELET_SECONDS
            if node.clock.awake() >= end and not unwell and watch.content(thorough=True) and not _waits(node, plan):
                watch()  # a call that waited may have been refused
                if are_back(node, plan, since=began):
                    return
            waits_since = (waits_since or node.clock.awake()) if _waits(node, plan) else None
            if waits_since is not None and node.clock.awake() >= max(end, waits_since) + OUTCOME_SECONDS:
                raise StepFailed(
                    "a call waits at the shield, and whether it was refused is not known", reason=Reason.SHIELD_HELD
                )
            node.clock.sleep(LOOK_SECONDS)


def _waits(node: Node, plan: RunPlan) -> bool:
    """Report whether the shield holds back a call that may have to be refused."""
    return plan.shield is not None and node.shield.waiting() > 0


def require_same_process(node: Node, plan: RunPlan, pid: int) -> None:
    """Check that the kubelet that became healthy still runs.

    Raises:
        StepFailed: It does not; the message has its last errors.
    """
    status = node.services.status(plan.swap.unit)
    if not pid or status.main_pid != pid:
        since = f", and runs again as process {status.main_pid}" if status.main_pid else ""
        where = f"see journalctl -u {status.name}{last_errors(read_log(node, status.name))}"
        raise StepFailed(
            f"the kubelet became healthy and exited during the settle period{since}; {where}",
            reason=Reason.VERIFICATION_FAILED,
        )


# Wait for a kubelet to become healthy, and detect early that it never will.

OLD_KUBELET_START_SECONDS = 120.0
POLL_SECONDS = 0.005
LOOK_AT_UNIT_SECONDS = 1.0
DEATHS_TOLERATED = 1


def wait_until_healthy(node: Node, unit: str, timeout: float, *, forgiving: bool, watch: Callable[[], None]) -> None:
    """Return once ``/healthz`` answers ok.

    A new kubelet that exits twice at its start will do so again, and waiting for it costs downtime (one exit may be the
    fault of a runtime that stops answering for a moment). The old kubelet has to come up eventually: ``forgiving``.
    While waiting, ``watch`` is called repeatedly, and may raise.

    Raises:
        StepFailed: the kubelet did not become healthy within ``timeout`` seconds, or it keeps exiting.
    """
    deadline = node.clock.awake() + timeout
    next_look = node.clock.awake() + LOOK_AT_UNIT_SECONDS
    pids: set[int] = set()
    said = ""
    while not node.kubelet.healthy():
        watch()
        now = node.clock.awake()
        if now >= next_look:
            status = node.services.status(unit)
            pids.add(status.main_pid)
            exited = status.sub_state == "auto-restart"
            if exited and not said:  # what it wrote is in the log only a moment after it has exited
                said = last_errors(read_log(node, unit))
            deaths = max(status.restarts, len(pids - {0}) - 1) + exited
            if status.active_state == "failed" or (deaths > DEATHS_TOLERATED and not forgiving):
                what = f"exits right after its start ({status.active_state}, result {status.result})"
                raise _did_not_start(node, unit, what, said)
            next_look = now + LOOK_AT_UNIT_SECONDS
        if now >= deadline:
            raise _did_not_start(node, unit, f"did not become healthy within {timeout:.0f} s", said)
        node.clock.sleep(POLL_SECONDS)


def _did_not_start(node: Node, unit: str, what: str, said: str) -> StepFailed:
    """Return the error, with the last errors of this kubelet, or else with those ``said`` by an earlier start."""
    said = last_errors(read_log(node, unit)) or said
    return StepFailed(f"the kubelet {what}; see journalctl -u {unit}{said}", reason=Reason.KUBELET_DID_NOT_START)


# Check that the program that runs is the one that was to be started: it may change after the last check before a start.

LOOK_AT_PROGRAM_SECONDS = 0.03
"""A kubelet takes a third of a second before it does anything to a container."""


@dataclass(slots=True)
class Running:
    """Checks which program a newly started kubelet runs, until it is known to be the right one."""

    node: Node
    plan: RunPlan
    stamp: str | None  # stamp of the right program; None if there is nothing to compare with
    _next: float = 0.0
    _seen: bool = False

    def __call__(self) -> None:
        """Check, if the next check is due.

        Raises:
            StepFailed: another program runs.
        """
        if not self._seen and self.node.clock.monotonic() >= self._next:
            self._look(last=False)
            self._next = self.node.clock.monotonic() + LOOK_AT_PROGRAM_SECONDS

    def confirm(self) -> None:
        """Check a last time, unless the right program was seen already.

        Raises:
            StepFailed: another program runs, or it cannot be determined which.
        """
        if not self._seen:
            self._look(last=True)

    def _look(self, *, last: bool) -> None:
        unit = self.node.services.status(self.plan.swap.unit)
        found = self.node.kubelet.program_stamp(unit.main_pid)
        self._seen = self.stamp is None or found == self.stamp
        if self._seen or not (last or (found is not None and self._starts_directly(unit))):
            return
        runs = self.node.kubelet.executable(unit.main_pid) if found is not None else None
        raise StepFailed(
            f"{unit.name} runs {runs or 'a program that cannot be told'}, which is not the kubelet that was to be "
            "started; find out what puts it there",
            reason=Reason.DIGEST_MISMATCH,
        )

    def _starts_directly(self, unit: UnitStatus) -> bool:
        """Report whether the unit starts the kubelet itself, not a program that then executes the kubelet."""
        planned = self.plan.kubelet_start
        return planned is None or planned.program == self.plan.swap.path or unit.program != planned.program
