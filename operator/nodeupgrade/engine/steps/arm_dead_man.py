"""Last preparations: the timer that brings a lost executor back runs, and the kubelet's fence lies ready."""

from collections.abc import Mapping

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.plan import RunPlan
from nodeupgrade.engine.node import DEAD_MAN_TIMER, Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Start the timer, and have systemd read the fence while that costs no kubelet time."""
    node.services.start(DEAD_MAN_TIMER)
    node.services.prepare_mask(plan.swap.unit)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Stop the timer: nothing is left that it would have to bring to an end."""
    node.services.unmask(plan.swap.unit)
    node.services.stop(DEAD_MAN_TIMER)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Do it again after an interruption."""
    return False
