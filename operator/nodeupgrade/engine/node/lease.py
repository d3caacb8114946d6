"""Has the node's Lease renewed while no kubelet does."""

from contextlib import suppress

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import LEASE_KEEPER, Node


def keep(node: Node, plan: RunPlan) -> None:
    """Start the keeper, unless it runs; it ends by itself, so that it never outlives who starts it for long."""
    if _wanted(plan):
        with suppress(StepFailed):  # nothing depends on it
            node.services.start(LEASE_KEEPER, wait=False)


def release(node: Node, plan: RunPlan) -> None:
    """Stop the keeper."""
    if _wanted(plan):
        with suppress(StepFailed):
            node.services.stop(LEASE_KEEPER)


def _wanted(plan: RunPlan) -> bool:
    return plan.limits.keep_lease and plan.kubeconfig is not None
