"""The lease keeper renews the node's Lease while no kubelet does."""

from contextlib import suppress

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import LEASE_KEEPER, Node
from nodeupgrade.node.plan.plan import RunPlan


def keep_lease(node: Node, plan: RunPlan) -> None:
    """Start the lease keeper, unless it runs. It ends by itself soon after the executor."""
    if _renews(plan):
        with suppress(StepFailed):  # the run does not depend on it
            node.services.start(LEASE_KEEPER, wait=False)


def release_lease(node: Node, plan: RunPlan) -> None:
    """Stop the lease keeper."""
    if _renews(plan):
        with suppress(StepFailed):  # it has ended by itself, or systemd ends it
            node.services.stop(LEASE_KEEPER)


def _renews(plan: RunPlan) -> bool:
    return plan.limits.keep_lease and plan.kubeconfig is not None
