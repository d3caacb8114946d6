"""Whether what runs is what was planned for, told at as little cost as possible: mostly no kubelet runs meanwhile."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.evidence.verification import Difference, affected, appeared, unplanned
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Node


def compare(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, tuple[Difference, ...]]:
    """What runs now, and what of the plan's baseline is not as it was.

    What a process and its start time prove is not asked for container by container, unless something differs: a
    container that completed meanwhile is told by its exit code.

    Args:
        addresses: also compare the addresses of sandboxes.
    """
    now = node.runtime.inventory(full=False, addresses=addresses)
    if not (found := unplanned(plan, now)):
        return now, found
    now = node.runtime.inventory(full=True)
    return now, unplanned(plan, now)


def require_planned(node: Node, plan: RunPlan) -> None:
    """Look whether everything runs that the plan knows, and nothing else.

    Raises:
        StepFailed: something was changed since.
    """
    now, lost = compare(node, plan)
    if found := (*lost, *appeared(plan.baseline, now, planned=plan.containers)):
        raise StepFailed(
            f"{len(found)} containers changed since planning, first: {found[0]}",
            reason=Reason.INVENTORY_CHANGED,
            changed=affected(lost),
        )
