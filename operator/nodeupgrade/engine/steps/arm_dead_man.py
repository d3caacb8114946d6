"""Start the timer that brings the executor back should it ever be gone in the middle of a run."""

from collections.abc import Mapping

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.plan import RunPlan
from nodeupgrade.engine.node import DEAD_MAN_TIMER, Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Start the timer."""
    node.services.start(DEAD_MAN_TIMER)


def undo(node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Stop the timer: nothing is left that it would have to bring to an end."""
    node.services.stop(DEAD_MAN_TIMER)


def is_done(node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Whether the timer is running."""
    return node.services.status(DEAD_MAN_TIMER).active_state == "active"
