"""Steps while the old kubelet still runs: programs are confirmed, and the rescue of a lost run is armed."""

from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.facts.device_access import Harmless, require_harmless_reload
from nodeupgrade.node.host.packages.dpkg_database import HELD, Selection
from nodeupgrade.node.node import DEAD_MAN_TIMER, EXECUTOR, Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run import file_exchange, kubelet_ports, lease_keeping, restart_tuning, shield_use
from nodeupgrade.node.run.kubelet_health import require_stays_up
from nodeupgrade.node.run.plan_amendment import require_plannable
from nodeupgrade.node.run.rescue_arming import write_script
from nodeupgrade.node.run.start_preconditions import (
    require_cgroups_as_planned,
    require_devices_as_planned,
    require_digest,
    require_harmless_restart,
    require_no_daemon,
    require_starts_as_planned,
    require_stops_as_planned,
)
from nodeupgrade.node.run.steps.actions import Payload, StepActions

SELECTION = "selection"


class ConfirmBinaries(StepActions):
    """Confirm that every program and file is as planned, and back up the old ones, before anything is touched.

    Reading the programs takes longer than the rest of the kubelet's downtime, so it happens while the kubelet runs. The
    backup stays after a rollback.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the stamps of the programs, which later show cheaply that they are unchanged."""
        runtime = () if plan.runtime_start is None else (plan.runtime_start.program,)
        return {path: node.files.stamp(PurePosixPath(path)) for path in (plan.swap.path, plan.swap.staged, *runtime)}

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Copy the old program to its backup name, and check the digests.

        A second name would change with a program that is written in place. The copy is read, not the old path, where
        another program may appear at any time. A program that has become a symbolic link is refused here, not with the
        kubelet down.
        """
        swap = plan.swap
        node.files.tidy(PurePosixPath(swap.path))
        node.files.copy(PurePosixPath(swap.path), PurePosixPath(swap.backup))
        require_digest(node, swap.backup, {swap.before})
        require_digest(node, swap.staged, {swap.after})
        file_exchange.back_up(node, plan)
        if (runtime := plan.runtime_start) is not None and runtime.digest is not None:
            require_digest(node, runtime.program, {runtime.digest})


class HoldPackage(StepActions):
    """Hold the package that the kubelet's program belongs to, if requested, so that no package upgrade replaces it.

    The hold stays after an upgrade. A rollback restores the previous selection.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the package's selection."""
        if plan.hold is None:
            return {}
        state, found = node.packages.state(), node.packages.selection(plan.hold)
        if state.interrupted and not state.user:
            raise StepFailed("dpkg was interrupted after planning", reason=Reason.KUBELET_FROM_PACKAGE)
        if found is None:
            why = f"package {plan.hold.specific} was removed after planning"
            raise StepFailed(why, reason=Reason.KUBELET_FROM_PACKAGE)
        return {"package": plan.hold.specific, SELECTION: found}

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Hold it, unless it is held; fail if another process uses dpkg."""
        if plan.hold is None or node.packages.selection(plan.hold) == HELD:
            return
        try:
            node.packages.select(plan.hold, HELD)
        except Transient as error:
            raise StepFailed(str(error), reason=Reason.CONFLICTING_NODE_OPERATION) from error

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | None:
        """Restore the previous selection where our hold is; leave and report one that was changed since."""
        before = Selection(str(payload.get(SELECTION, HELD)))
        if plan.hold is None or before == HELD:
            return None
        name, found = plan.hold.specific, node.packages.selection(plan.hold)
        if found == HELD:
            try:
                node.packages.select(plan.hold, before)
            except (StepFailed, Transient) as error:
                raise StepFailed(f"package {name} is still held (run apt-mark unhold {name}): {error}") from error
        elif found != before:
            return f"package {name} was {'removed' if found is None else f'set to {found}'} during the run, and left so"
        return None


class ArmDeadMan(StepActions):
    """Arm the dead man and the rescue script, and prepare everything that needs a ``daemon-reload``.

    That is the kubelet's fence and the tuning of the runtime's restart: a reload is too slow without a kubelet.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the tuning of the runtime's restart, for people; ``undo`` needs nothing."""
        require_harmless_reload(node.files, node.services)
        return {"tuning": plan.tuning.why}

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Start the timers, and make systemd load its files while the kubelet still runs.

        The last look at containers comes last, so that as little as possible changes until the kubelet stops: what
        came and cannot be planned turns the run back before that.
        """
        lease_keeping.keep_lease(node, plan)  # early: its start takes a CPU for a tenth of a second
        shield_use.start(node, plan)
        write_script(node, plan)
        node.services.start(DEAD_MAN_TIMER)
        node.services.start(script.TIMER)
        look = Harmless.by_now(node.files, node.services)
        restart_tuning.apply_tuning(node, plan, look)
        node.services.prepare_mask(plan.swap.unit, look)
        _require_units(node)
        file_exchange.require_as_planned(node, plan)
        require_starts_as_planned(node, plan)
        require_stops_as_planned(node, plan)
        require_cgroups_as_planned(node, plan)
        require_devices_as_planned(node, plan)
        kubelet_ports.require_free(node, plan, health=True)
        require_harmless_restart(node, plan)
        require_no_daemon(node, plan)
        require_plannable(node, plan)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Stop the timers and the shield: there is nothing left to rescue, and the old kubelet has been quiet.

        Where it was stopped, it has to stay up before.
        If systemd cannot reload, the tuning stays, with which the runtime starts as well. That is reported, and does
        not keep the node out of service: the next run removes the tuning.
        """
        if node.recorded(Step.STOP_KUBELET) is not None:
            require_stays_up(node, plan.swap.unit)
        shield_use.end(node, plan)
        node.services.unmask(plan.swap.unit)
        for timer in (script.TIMER, DEAD_MAN_TIMER):
            if not node.services.status(timer).gone:  # a reboot removes the rescue timer
                node.services.stop(timer)
        lease_keeping.release_lease(node, plan)
        for path in script.IN_MEMORY:
            with suppress(StepFailed):  # nothing runs it any more
                node.files.remove(path)
        if plan.tuning.files:
            try:
                if restart_tuning.remains(node, plan):
                    restart_tuning.remove_tuning(node.files, node.services, node.runtime.kind)
            except StepFailed as error:
                return (
                    f"the temporary settings of {plan.runtime_unit} are still in effect, until `systemctl "
                    f"daemon-reload` or the next run: {error}"
                )
        return None


def _require_units(node: Node) -> None:
    """Require the units that restart a lost executor, now that systemd has read its files for the last time.

    Raises:
        StepFailed: a unit file was removed.
    """
    for unit in (EXECUTOR, DEAD_MAN_TIMER, script.TIMER):
        status = node.services.status(unit)
        if status.load_state != "loaded" or status.active_state == "failed":
            raise StepFailed(
                f"systemd has lost {unit} ({status.load_state}, {status.active_state}), whose file this run wrote; "
                "find out what removes unit files on this node"
            )
