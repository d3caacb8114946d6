"""Lift the fence and start the new kubelet."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.failpoints import KUBELET_STARTED
from nodeupgrade.engine.node import last_look
from nodeupgrade.engine.node.evidence.shown import require_shown
from nodeupgrade.engine.node.evidence.watch import Watch
from nodeupgrade.engine.node.health import wait_until_healthy
from nodeupgrade.engine.node.node import Node

FIRST_LOOK_SECONDS = 0.5
"""A kubelet needs a third of a second to be up, and harms nothing before; starting is work enough for the node."""


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Start it and wait until it is healthy; what it is, and what it does to containers, may end the waiting."""
    require_shown(node, plan)
    running = last_look.Running(node, plan, last_look.require_new_program(node, plan))
    node.services.unmask(plan.swap.unit)
    node.services.start(plan.swap.unit, wait=False)
    node.failpoint(KUBELET_STARTED)
    seconds = min(plan.limits.kubelet_down, node.seconds)
    watch = Watch.from_now(node, plan, first_look=FIRST_LOOK_SECONDS)

    def look() -> None:
        running()
        watch()

    wait_until_healthy(node, plan.swap.unit, seconds, forgiving=False, watch=look)
    running.confirm()


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Stop and fence the new kubelet; what it would read is about to change under it."""
    node.services.mask(plan.swap.unit)
    node.services.stop(plan.swap.unit)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption; one that runs is left as it is, once it is known to be the right one."""
    return False
