"""Steps of the kubelet itself: the old one is stopped, its program swapped, and the new one started and watched."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Self

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.facts.device_access import found_harmless
from nodeupgrade.node.failpoints.failpoints import FENCED, KUBELET_STARTED, LOOKED
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import reloads_without_kubelet
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import (
    file_exchange,
    inventory_comparison,
    kernel_settings,
    kubelet_ports,
    kubelet_sockets,
    kubelet_state,
    reload_look,
    shield_use,
    start_preconditions,
)
from nodeupgrade.node.run.container_watch import LOOK_SECONDS, Watch
from nodeupgrade.node.run.kubelet_health import OLD_KUBELET_START_SECONDS, wait_until_healthy
from nodeupgrade.node.run.kubelet_log import last_errors, read_log
from nodeupgrade.node.run.node_status import NodeStatusWait
from nodeupgrade.node.run.shown_containers import require_shown
from nodeupgrade.node.run.start_preconditions import require_digest
from nodeupgrade.node.run.started_program import ProgramWatch
from nodeupgrade.node.run.static_pod_recreation import are_recreated
from nodeupgrade.node.run.steps.actions import Payload, StepActions

FIRST_LOOK_SECONDS = 0.5
"""A kubelet takes a third of a second to start and harms nothing before, and a look would slow its start."""
LOOK_AT_KUBELET_SECONDS = 1.0
UNHEALTHY_LOOKS_TOLERATED = 5
NOT_SHOWN = "before the API server showed the new kubelet"
OUTCOME_SECONDS = 60.0
"""How long after the settle period a call may wait at the shield: one that cannot be recorded waits forever."""


class StopKubelet(StepActions):
    """Fence and stop the kubelet, so that nothing else can start it."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the state files while a kubelet runs: what pods put in their place once it is stopped is replaced.

        Also what containers' devices rest on, if systemd is to read its files again without a kubelet.
        """
        kubelet_sockets.require_replaceable(node, plan)
        saved = kubelet_state.save(node, plan, {}) | kernel_settings.save(node)
        return (
            saved | {reload_look.DEVICES: found_harmless(node.files, node.services)}
            if reloads_without_kubelet(plan)
            else saved
        )

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Fence before stopping, so that no automatic restart can happen in between."""
        kernel_settings.change(node, payload)
        node.services.mask(plan.swap.unit, reload_look.harmless(node))
        node.failpoint(FENCED)
        node.services.stop(plan.swap.unit)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Start the old kubelet again; everything that it reads has been restored.

        If another program starts, stop it at once: the hashes are the old kubelet's. The shield stays up until the old
        kubelet has been quiet for a while (see ArmDeadMan): its start may have been changed meanwhile.
        """
        replaced = start_preconditions.stranger(node, plan)
        running = ProgramWatch(node, plan, start_preconditions.require_old_program(node, plan))
        moved = kubelet_sockets.make_way(node, plan)
        shield_use.raise_again(node, plan)
        node.services.unmask(plan.swap.unit)
        try:
            node.services.start(plan.swap.unit, wait=False)
            with kubelet_ports.naming_who_has_one(node, plan, plan.old_ports):
                wait_until_healthy(node, plan.swap.unit, OLD_KUBELET_START_SECONDS, forgiving=True, watch=running)
            running.confirm()
        except StepFailed as error:
            if error.reason is Reason.DIGEST_MISMATCH:
                _fence_and_stop(node, plan)
            raise
        return "; ".join(filter(None, (replaced, moved))) or None

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
        for name, known, planned in (
            (swap.staged, new, {swap.after}),
            (swap.path, either, {swap.before, swap.after}),  # the new one, if this is a repetition
        ):
            if node.files.stamp(PurePosixPath(name)) not in known - {None}:
                require_digest(node, name, planned)
        backup = PurePosixPath(swap.backup)
        path = PurePosixPath(swap.path)
        if node.files.size(backup) != node.files.size(path) and node.files.digest(path) == swap.before:
            node.files.replace(path, backup)  # somebody has removed or changed it
        node.files.replace(PurePosixPath(swap.staged), path)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Put the backup in place, unless that cannot be done and the old program is there."""
        path = PurePosixPath(plan.swap.path)
        aside = file_exchange.set_aside(node, path)
        replaced = start_preconditions.stranger(node, plan)
        try:
            node.files.replace(PurePosixPath(plan.swap.backup), path)
        except StepFailed:
            if node.files.digest(path) != plan.swap.before:
                raise
        return aside or replaced

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
        require_shown(node, plan, node.runtime.inventory())
        kubelet_ports.require_free(node, plan, health=False)
        kubelet_sockets.require_replaceable(node, plan)
        kubelet_sockets.remove_links(node, plan)
        start_preconditions.require_manifests(node, plan)
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

        with kubelet_ports.naming_who_has_one(node, plan, plan.ports):
            wait_until_healthy(node, plan.swap.unit, seconds, forgiving=False, watch=look)
        running.confirm()

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Fence and stop the new kubelet, before the files that it reads are restored."""
        return _fence_and_stop(node, plan)


class AwaitNodeStatus(StepActions):
    """Wait until the API server shows the new kubelet: the settle period begins then, see `node_status`."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Watch containers and kubelet meanwhile."""
        watch, status = KubeletWatch.from_now(node, plan, NOT_SHOWN), NodeStatusWait.from_now(node, plan)
        while not status.is_over():
            watch()
            node.clock.sleep(LOOK_SECONDS)


class Verify(StepActions):
    """Verify, for the settle period, that the new kubelet stays healthy and changes no instance.

    The first seconds are the most dangerous: every pod is admitted and synchronised again. Damage ends the step at
    once. Nothing on the node shows that a kubelet has synchronised every pod: see docs/decisions/settle-period.md.
    """

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Watch containers and kubelet until the settle period is over; look thoroughly at its end.

        An executor that was started again may watch another kubelet than the one that this run started.
        """
        watch = KubeletWatch.from_now(node, plan, "during the settle period")
        began = node.clock.awake()
        end = began + plan.limits.settle
        waits_since: AwakeTime | None = None
        while True:
            watch()
            settled = node.clock.awake() >= end and not watch.unhealthy
            if settled and watch.containers.is_content(thorough=True) and not _waits(node, plan):
                watch.containers()  # a call that waited may have been refused
                if are_recreated(node, plan, since=began):
                    ProgramWatch(node, plan, start_preconditions.require_new_file(node, plan)).confirm()
                    return
            waits_since = (waits_since or node.clock.awake()) if _waits(node, plan) else None
            if waits_since is not None and node.clock.awake() >= max(end, waits_since) + OUTCOME_SECONDS:
                raise StepFailed(shield_use.CALL_WAITS, reason=Reason.SHIELD_REFUSED_CALL)
            node.clock.sleep(LOOK_SECONDS)


@dataclass(slots=True)
class KubeletWatch:
    """Watches the new kubelet, and what ran before it."""

    node: Node
    plan: RunPlan
    when: str  # for messages
    containers: Watch
    _pid: int
    _next: AwakeTime
    unhealthy: int = 0  # health checks that failed in a row

    @classmethod
    def from_now(cls, node: Node, plan: RunPlan, when: str) -> Self:
        """Return a watch of the kubelet that runs now."""
        pid = node.services.status(plan.swap.unit).main_pid
        return cls(node, plan, when, Watch.from_now(node, plan), pid, node.clock.awake())

    def __call__(self) -> None:
        """Look at whatever is due.

        Raises:
            StepFailed: a container was harmed, the kubelet exited or stays unhealthy, or an abort was requested.
        """
        if self.node.abort():
            raise StepFailed(f"an abort was requested {self.when}", reason=Reason.ABORTED)
        self.containers()
        if self.node.clock.awake() < self._next:
            return
        require_same_process(self.node, self.plan, self._pid)
        self.unhealthy = 0 if self.node.kubelet.healthy() else self.unhealthy + 1
        if self.unhealthy > UNHEALTHY_LOOKS_TOLERATED:
            why = f"the kubelet failed {self.unhealthy} health checks in a row"
            raise StepFailed(why, reason=Reason.VERIFICATION_FAILED)
        self._next += LOOK_AT_KUBELET_SECONDS


def _fence_and_stop(node: Node, plan: RunPlan) -> str | None:
    """Fence and stop a kubelet that must not run on.

    Where its fence was removed, and making it again would take a device from a container, it is stopped without one: a
    device is lost for certain, and a kubelet that is stopped is started by systemd or somebody only perhaps.

    Returns:
        Why there is no fence.
    """
    unfenced = None
    try:
        node.services.mask(plan.swap.unit, reload_look.harmless(node))
    except StepFailed as error:
        if error.reason is not Reason.DEVICES_WOULD_BE_LOST:
            raise
        unfenced = f"the kubelet was stopped without a fence: {error}"
    node.services.stop(plan.swap.unit)
    return unfenced


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
        why = f"the kubelet became healthy and exited while it was watched{since}; {log}"
        raise StepFailed(why, reason=Reason.VERIFICATION_FAILED)
