"""Lift the fence and start the new kubelet."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.failpoints import KUBELET_STARTED, LOOKED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import start_preconditions, with_runtime
from nodeupgrade.engine.node.evidence import require_shown
from nodeupgrade.engine.node.node import Node, wait_until_healthy
from nodeupgrade.engine.node.watch import Watch

FIRST_LOOK_SECONDS = 0.5
"""A kubelet takes a third of a second to start and harms nothing before, and a look would slow its start."""


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the containers that ended with the runtime: from now on, a kubelet may start them again."""
    return with_runtime.noted(node, plan)


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Start it and wait until it is healthy; fail early if it is the wrong program or harms a container."""
    require_shown(node, plan)
    running = start_preconditions.Running(node, plan, start_preconditions.require_new_program(node, plan))
    node.failpoint(LOOKED)
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
    """Fence and stop the new kubelet, before the files that it reads are restored."""
    node.services.mask(plan.swap.unit)
    node.services.stop(plan.swap.unit)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption; a running kubelet keeps running, if it is the right program."""
    return False
