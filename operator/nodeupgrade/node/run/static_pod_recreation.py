"""Wait until the new kubelet has recreated static pods, where ``staticPods: Recreate`` requests it."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import Inventory

LEAVE_SECONDS = 60.0
"""How long a kubelet may take to begin; a pod that still runs then has kept its UID, and is not replaced."""
RETURN_SECONDS = 300.0
"""How long pods may take to end, with their grace period, and to run again."""


def are_recreated(node: Node, plan: RunPlan, *, since: AwakeTime) -> bool:
    """Report whether every container of these pods runs again, or was kept, since the new kubelet was first watched.

    Raises:
        StepFailed: one does not run again in time.
    """
    if not (wanted := plan.to_recreate()):
        return True
    may_complete = {c.id for c in plan.containers if c.may_complete}
    try:
        now = tuple(node.runtime.inventory().running())
    except (Transient, Unimplemented):
        return False
    kept = {c.id for c in now}
    fresh = {c.label for c in now} - {c.label for c in wanted if c.id in kept}
    waited = node.clock.awake() - since
    away = [
        c.label
        for c in wanted
        if c.id not in may_complete and c.label not in fresh and (c.id not in kept or waited < LEAVE_SECONDS)
    ]
    if away and waited > RETURN_SECONDS:
        why = f"{away[0]} of a static pod that was to be recreated does not run again after {waited:.0f} s"
        raise StepFailed(why, reason=Reason.VERIFICATION_FAILED)
    return not away


def recreated(plan: RunPlan, now: Inventory) -> tuple[str, ...]:
    """Return the labels of the containers that were recreated."""
    kept = {c.id for c in now.running()}
    return tuple(c.label for c in plan.to_recreate() if c.id not in kept)
