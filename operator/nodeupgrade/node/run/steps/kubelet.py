"""Steps of the kubelet itself: the old one is stopped, its program swapped, and the new one started and watched."""

from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import FENCED, KUBELET_STARTED, LOOKED
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import inventory_comparison, shield_use, start_preconditions
from nodeupgrade.node.run.container_watch import LOOK_SECONDS, Watch
from nodeupgrade.node.run.kubelet_health import OLD_KUBELET_START_SECONDS, wait_until_healthy
from nodeupgrade.node.run.kubelet_log import last_errors, read_log
from nodeupgrade.node.run.shown_containers import require_shown
from nodeupgrade.node.run.start_preconditions import require_digest
from nodeupgrade.node.run.started_program import ProgramWatch
from nodeupgrade.node.run.static_pod_recreation import are_recreated
from nodeupgrade.node.run.steps.actions import Payload, StepActions

FIRST_LOOK_SECONDS = 0.5
"""A kubelet takes a third of a second to start and harms nothing before, and a look would slow its start."""
LOOK_AT_KUBELET_SECONDS = 1.0
UNHEALTHY_LOOKS_TOLERATED = 5
OUTCOME_SECONDS = 60.0
"""How long after the settle period a call may wait at the shield: one that cannot be recorded waits forever."""


class StopKubelet(StepActions):
    """Fence and stop the kubelet, so that nothing else can start it."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Fence before stopping, so that no automatic restart can happen in between."""
        node.services.mask(plan.swap.unit)
        node.failpoint(FENCED)
        node.services.stop(plan.swap.unit)

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Start the old kubelet again; everything that it reads has been restored.

        If another program starts, stop it at once: the hashes are the old kubelet's. The shield stays up until the old
        kubelet has been quiet for a while (see ArmDeadMan): its start may have been changed meanwhile.
        """
        running = ProgramWatch(node, plan, start_preconditions.require_old_program(node, plan))
        shield_use.raise_again(node, plan)
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

        Both programs must still be the confirmed ones. To save time, digests are computed only if a stamp differs.
        """
        swap, confirmed = plan.swap, node.recorded(Step.CONFIRM_BINARIES) or {}
        new, either = {confirmed.get(swap.staged)}, {confirmed.get(swap.path), confirmed.get(swap.staged)}
        for path, known, planned in (
            (swap.staged, new, {swap.after}),
            (swap.path, either, {swap.before, swap.after}),  # the new one, if this is a repetition
        ):
            if node.files.stamp(PurePosixPath(path)) not in known - {None}:
                require_digest(node, path, planned)
        backup = PurePosixPath(swap.backup)
        if node.files.stamp(backup) is None and node.files.digest(PurePosixPath(swap.path)) == swap.before:
            node.files.replace(PurePosixPath(swap.path), backup)  # somebody has removed it
        node.files.replace(PurePosixPath(swap.staged), PurePosixPath(swap.path))

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
        return inventory_comparison.ended_with_runtime(node, plan)

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Start it and wait until it is healthy; fail early if it is the wrong program or harms a container."""
        require_shown(node, plan)
        running = ProgramWatch(node, plan, start_preconditions.require_new_program(node, plan))
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
    once. Nothing on the node shows that a kubelet has synchronised every pod: see docs/decisions/settle-period.md.
    """

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Watch containers and kubelet until the settle period is over; look thoroughly at its end."""
        watch = Watch.from_now(node, plan)
        pid = node.services.status(plan.swap.unit).main_pid
        began = next_look = node.clock.awake()
        end = next_look + plan.limits.settle
        unhealthy = 0
        waits_since: AwakeTime | None = None
        while True:
            if node.abort():
                raise StepFailed("an abort was requested during the settle period", reason=Reason.ABORTED)
            watch()
            if node.clock.awake() >= next_look:
                require_same_process(node, plan, pid)
                unhealthy = 0 if node.kubelet.healthy() else unhealthy + 1
                if unhealthy > UNHEALTHY_LOOKS_TOLERATED:
                    why = f"the kubelet failed {unhealthy} health checks in a row"
                    raise StepFailed(why, reason=Reason.VERIFICATION_FAILED)
                next_look += LOOK_AT_KUBELET_SECONDS
            settled = node.clock.awake() >= end and not unhealthy
            if settled and watch.is_content(thorough=True) and not _waits(node, plan):
                watch()  # a call that waited may have been refused
                if are_recreated(node, plan, since=began):
                    return
            waits_since = (waits_since or node.clock.awake()) if _waits(node, plan) else None
            if waits_since is not None and node.clock.awake() >= max(end, waits_since) + OUTCOME_SECONDS:
                raise StepFailed(shield_use.CALL_WAITS, reason=Reason.SHIELD_REFUSED_CALL)
            node.clock.sleep(LOOK_SECONDS)


def _waits(node: Node, plan: RunPlan) -> bool:
    """Report whether the shield holds back a call that may have to be refused."""
    return plan.shield is not None and node.shield.waiting() > 0


def require_same_process(node: Node, plan: RunPlan, pid: int) -> None:
    """Require that the kubelet that became healthy still runs.

    Raises:
        StepFailed: It does not; the message has its last errors.
    """
    status = node.services.status(plan.swap.unit)
    if not pid or status.main_pid != pid:
        since = f", and runs again as process {status.main_pid}" if status.main_pid else ""
        log = f"see journalctl -u {status.name}{last_errors(read_log(node, status.name))}"
        why = f"the kubelet became healthy and exited during the settle period{since}; {log}"
        raise StepFailed(why, reason=Reason.VERIFICATION_FAILED)
