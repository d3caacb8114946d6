"""Start and stop the lease keeper, which renews the node's Lease while no kubelet does."""

from contextlib import suppress

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import LEASE_KEEPER, Node


def keep(node: Node, plan: RunPlan) -> None:
    """Start the lease keeper, unless it runs. It ends by itself, so it never outlives the executor for long."""
    if _wanted(plan):
        with suppress(StepFailed):  # the run does not depend on it
            node.services.start(LEASE_KEEPER, wait=False)


def release(node: Node, plan: RunPlan) -> None:
    """Stop the lease keeper."""
    if _wanted(plan):
        with suppress(StepFailed):  # it has ended by itself, or systemd ends it
            node.services.stop(LEASE_KEEPER)


def _wanted(plan: RunPlan) -> bool:
    return plan.limits.keep_lease and plan.kubeconfig is not None
