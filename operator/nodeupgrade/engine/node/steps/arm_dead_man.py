"""Arm the dead man and the rescue script, and prepare everything that needs a ``daemon-reload``.

The latter are the kubelet's fence and the tuning of the runtime's restart: a reload takes too long without a kubelet.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node import rescue_script
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import lease, restart_tuning, shield
from nodeupgrade.engine.node.evidence import require_planned
from nodeupgrade.engine.node.facts.host import lacking
from nodeupgrade.engine.node.node import DEAD_MAN_TIMER, EXECUTOR, Node
from nodeupgrade.engine.node.rescue import lay_down


def prepare(_node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the tuning of the runtime's restart, for people; ``undo`` needs nothing."""
    return {"tuning": plan.tuning.why}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Start the timers, and make systemd load its files while the kubelet still runs.

    Changes since planning are detected here, before the kubelet stops; and the next inventory knows every process.
    """
    require_planned(node, plan)
    lease.keep(node, plan)  # early: its start takes a CPU for a tenth of a second
    shield.start(node, plan)
    lay_down(node, plan)
    node.services.start(DEAD_MAN_TIMER)
    node.services.start(rescue_script.TIMER)
    restart_tuning.give(node, plan)
    node.services.prepare_mask(plan.swap.unit)
    _require_units(node)
    _require_cgroups(node, plan)


def _require_units(node: Node) -> None:
    """Require what brings a lost executor back, now that systemd has read its files for the last time.

    Raises:
        StepFailed: somebody has removed a file.
    """
    for unit in (EXECUTOR, DEAD_MAN_TIMER, rescue_script.TIMER):
        status = node.services.status(unit)
        if status.load_state != "loaded" or status.active_state == "failed":
            raise StepFailed(
                f"systemd has lost {unit} ({status.load_state}, {status.active_state}), whose file this run had "
                "written; find out what removes unit files on this node"
            )


def _require_cgroups(node: Node, plan: RunPlan) -> None:
    """Require the pods' cgroups to be what they were, now that systemd has read its files for the last time.

    A ``daemon-reload`` may take controllers away that systemd knows nothing of (kubernetes#128397). It has happened by
    now: systemd sees to it before it answers the next call.

    Raises:
        StepFailed: a pod that runs has lost something.
    """
    if not (lost := lacking(node.files, plan.cgroups)):
        return
    sandboxes = node.runtime.inventory(full=False).sandboxes
    running = {sandbox.pod.uid: sandbox.pod for sandbox in sandboxes if sandbox.ready}
    if pods := [f"{running[uid]} ({', '.join(missing)})" for uid, missing in lost.items() if uid in running]:
        raise StepFailed(
            f"the cgroups of {len(pods)} pods have lost controllers since the run was planned, first: {pods[0]}; any "
            "kubelet that looks would kill them (a `systemctl daemon-reload` may have caused it, kubernetes#128397)",
            reason=Reason.POD_CGROUP_MOVES,
        )


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Stop the timers and the shield: there is nothing left to rescue, and the old kubelet has been quiet."""
    shield.end(node, plan)
    node.services.unmask(plan.swap.unit)
    for timer in (rescue_script.TIMER, DEAD_MAN_TIMER):
        if not node.services.status(timer).gone:  # a reboot removes the rescue timer
            node.services.stop(timer)
    lease.release(node, plan)
    node.files.remove(rescue_script.SCRIPT)
    if plan.tuning.files:
        restart_tuning.take_back(node.files, node.services, node.runtime.kind)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption."""
    return False
