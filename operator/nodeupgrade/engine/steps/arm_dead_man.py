"""Last preparations: what brings a lost executor, or the old kubelet, back; and the kubelet's fence lies ready."""

from collections.abc import Mapping
from contextlib import suppress

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node import rescue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import DEAD_MAN_TIMER, LEASE_KEEPER, Node
from nodeupgrade.engine.rescue import lay_down


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Start the timers, and have systemd read the fence while that costs no kubelet time."""
    lay_down(node, plan)
    node.services.start(DEAD_MAN_TIMER)
    node.services.start(rescue.TIMER)
    node.services.prepare_mask(plan.swap.unit)
    if _keeps_lease(plan):
        with suppress(StepFailed):  # nothing depends on it
            node.services.start(LEASE_KEEPER, wait=False)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Stop the timers: nothing is left that they would have to bring to an end."""
    node.services.unmask(plan.swap.unit)
    for timer in (rescue.TIMER, DEAD_MAN_TIMER):
        if node.services.status(timer).load_state != "not-found":  # a reboot takes the rescue's away
            node.services.stop(timer)
    if _keeps_lease(plan):
        with suppress(StepFailed):
            node.services.stop(LEASE_KEEPER)
    node.files.remove(rescue.SCRIPT)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Do it again after an interruption."""
    return False


def _keeps_lease(plan: RunPlan) -> bool:
    return plan.limits.keep_lease and plan.kubeconfig is not None
