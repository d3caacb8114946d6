"""Raise the shield: from now on no kubelet can end what ran before the upgrade."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.failpoints import SHIELD_RAISED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Node


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return whether the shield's process is ready, which was started before the kubelet stopped, and the time.

    Whatever is refused after that time turns the run back.
    """
    if plan.shield is None:
        return {}
    return {"ready": node.shield.ready(), "monotonic": node.clock.awake().seconds}


def do(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Raise it. Without its process the run goes on, unless it requires the shield."""
    if plan.shield is None:
        return
    if not payload["ready"]:
        if plan.shield.required:
            raise StepFailed("the shield's process does not answer", reason=Reason.SHIELD_UNAVAILABLE)
        return
    node.shield.raise_up()
    node.failpoint(SHIELD_RAISED)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Lower it: no kubelet runs, and nothing shall stand between this run and the runtime. It is raised once more.

    See stop_kubelet, whose undo starts the old kubelet.
    """
    if plan.shield is not None:
        node.shield.lower()


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether a kubelet that connects now reaches the shield."""
    return plan.shield is not None and node.shield.raised()
