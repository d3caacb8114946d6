"""Confirm, with the kubelet down, that exactly the planned containers run. Nothing starts containers any more."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.evidence import require_planned
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: ``undo`` needs nothing."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Compare the runtime's inventory with the plan."""
    require_planned(node, plan)


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Do nothing: the step changes nothing."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Look again after an interruption."""
    return False
