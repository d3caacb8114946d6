"""Watch for the settle period that the new kubelet stays well and leaves every instance alone.

The first seconds are the dangerous ones: every pod is admitted and synchronised anew. A difference ends the
watch at once, so that the rollback can start while little is lost.
"""

from collections.abc import Mapping

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.plan import RunPlan
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.verification import Difference, unplanned
from nodeupgrade.engine.node import Node

LOOK_SECONDS = 1.0
UNHEALTHY_LOOKS_TOLERATED = 5
LISTED = 20


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Look every second until the settle period is over."""
    pid = node.services.status(plan.swap.unit).main_pid
    end = node.clock.monotonic() + plan.limits.settle
    unwell = 0
    while True:
        if node.abort():
            raise StepFailed("the run was asked to abort while it settled", reason=Reason.ABORTED)
        found = look(node, plan)
        if found:
            raise StepFailed(_story(found), reason=Reason.CONTAINER_RESTARTED)
        status = node.services.status(plan.swap.unit)
        if status.main_pid != pid:
            raise StepFailed(
                f"the kubelet process was {pid} and is {status.main_pid or 'gone'} during the settle period",
                reason=Reason.VERIFICATION_FAILED,
            )
        unwell = 0 if node.kubelet.healthy() else unwell + 1
        if unwell > UNHEALTHY_LOOKS_TOLERATED:
            raise StepFailed(f"the kubelet was unhealthy in {unwell} looks in a row", reason=Reason.VERIFICATION_FAILED)
        if node.clock.monotonic() >= end and not unwell:
            return
        node.clock.sleep(LOOK_SECONDS)


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Looking leaves no trace."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Watch the whole period again after an interruption."""
    return False


def look(node: Node, plan: RunPlan) -> tuple[Difference, ...]:
    """What is not as it was. One listing that lacks something proves nothing; two in a row do."""
    try:
        if not unplanned(plan, node.runtime.inventory(full=True)):
            return ()
        return unplanned(plan, node.runtime.inventory(full=True))
    except Transient:
        return ()


def _story(found: tuple[Difference, ...]) -> str:
    listed = "; ".join(str(difference) for difference in found[:LISTED])
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return f"the new kubelet did not leave everything alone: {listed}{more}"
