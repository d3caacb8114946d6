"""With the kubelet down nothing moves any more: what runs now must be exactly what was planned for."""

from collections.abc import Mapping

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.verification import appeared, unplanned
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.engine.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Compare the runtime's inventory with the plan."""
    now = node.runtime.inventory(full=False)
    found = [
        *unplanned(plan, now),
        *appeared(plan.baseline, now, planned=plan.containers),
    ]
    if found:
        raise StepFailed(
            f"{len(found)} containers changed since planning, first: {found[0]}", reason=Reason.INVENTORY_CHANGED
        )


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Looking leaves no trace."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Look again after an interruption."""
    return False
