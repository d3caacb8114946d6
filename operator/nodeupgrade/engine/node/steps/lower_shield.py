"""Lower the shield: the new kubelet is verified, and is the runtime's only client again. The end is the commit."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.failpoints import SHIELD_LOWERED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import shield
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: ``undo`` needs nothing."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the runtime's own socket back by one rename; calls under way are completed."""
    if plan.shield is None:
        return
    node.shield.lower()
    node.failpoint(SHIELD_LOWERED)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Raise it again, if it can be: the new kubelet still runs."""
    shield.raise_again(node, plan)


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether a kubelet that connects now reaches the runtime."""
    return plan.shield is None or not node.shield.raised()
