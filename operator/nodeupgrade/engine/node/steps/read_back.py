"""Read back what the runtime serves after its restart, before the new kubelet sees it."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.verification import hash_differences
from nodeupgrade.engine.node import with_runtime
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: ``undo`` needs nothing."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Require the same instances with their new hashes, and every sandbox ready with its address.

    Containers that have ended because the runtime was restarted are the only exception.
    """
    now, seen = with_runtime.look(node, plan, addresses=True)
    if found := (*seen.damage, *hash_differences(plan.containers, now)):
        raise StepFailed(
            f"after the runtime restart {len(found)} instances are not as planned, first: {found[0]}",
            reason=Reason.VERIFICATION_FAILED,
        )


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Do nothing: the step changes nothing."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Look again after an interruption."""
    return False
