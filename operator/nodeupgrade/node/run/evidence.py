"""Evidence that what ran still runs: as planned, replaced as planned, and shown by the runtime."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.verification.verification import Difference, affected, appeared, unplanned

LOOK_SECONDS = 0.25


def compare(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, tuple[Difference, ...]]:
    """Return the present inventory, and how it differs from the plan's baseline, perhaps also in sandboxes' addresses.

    Process and start time identify an instance, so details are requested for each container only if something
    differs: the exit code shows whether a container completed meanwhile.
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
            changed=affected(each.label for each in lost),
        )
