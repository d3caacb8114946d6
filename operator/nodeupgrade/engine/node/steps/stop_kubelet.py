"""Fence and stop the kubelet, so that nothing else can start it."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.failpoints import FENCED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import shield, start_preconditions
from nodeupgrade.engine.node.node import OLD_KUBELET_START_SECONDS, Node, wait_until_healthy


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: the unit's own files are not changed."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Fence first, so that no automatic restart can happen in between."""
    node.services.mask(plan.swap.unit)
    node.failpoint(FENCED)
    node.services.stop(plan.swap.unit)


def undo(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Start the old kubelet again; everything that it reads has been restored.

    If another program starts, stop it at once: the hashes are the old kubelet's. The shield stays up until the kubelet
    was quiet for a while (see arm_dead_man): how it starts may have been changed meanwhile.
    """
    running = start_preconditions.Running(node, plan, start_preconditions.require_old_program(node, plan))
    shield.raise_again(node, plan)
    node.services.unmask(plan.swap.unit)
    try:
        node.services.start(plan.swap.unit, wait=False)
        wait_until_healthy(node, plan.swap.unit, OLD_KUBELET_START_SECONDS, forgiving=True, watch=running)
        running.confirm()
    except StepFailed as error:
        if error.reason is Reason.DIGEST_MISMATCH:
            do(node, plan, payload)
        raise


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether the kubelet is down and fenced."""
    status = node.services.status(plan.swap.unit)
    return status.main_pid == 0 and status.fenced
