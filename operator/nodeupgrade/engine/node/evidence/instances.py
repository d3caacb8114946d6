"""Compare the running instances with the plan, as cheaply as possible: usually no kubelet runs meanwhile."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.evidence.verification import Difference, affected, appeared, unplanned
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Node


def compare(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, tuple[Difference, ...]]:
    """Return the present inventory, and how it differs from the plan's baseline.

    Process and start time identify an instance, so details are requested for each container only if something
    differs: the exit code shows whether a container completed meanwhile.

    Args:
        addresses: also compare the addresses of sandboxes.
    """
    now = node.runtime.inventory(full=False, addresses=addresses)
    if not (changes := unplanned(plan, now)):
        return now, changes
    now = node.runtime.inventory(full=True)
    return now, unplanned(plan, now)


def require_planned(node: Node, plan: RunPlan) -> None:
    """Require exactly the planned containers to run.

    Raises:
        StepFailed: something changed since planning.
    """
    now, lost = compare(node, plan)
    if changes := (*lost, *appeared(plan.baseline, now, planned=plan.containers)):
        raise StepFailed(
            f"{len(changes)} containers changed since planning, first: {changes[0]}",
            reason=Reason.INVENTORY_CHANGED,
            changed=affected(lost),
        )
