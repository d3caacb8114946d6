"""Hold the package that the kubelet's program belongs to, if that is asked for, so that no upgrade replaces it.

It happens while the kubelet still runs, and stays after an upgrade. A rollback restores what was on record before.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.packages import HELD, Selection
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Node

SELECTION = "selection"


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return what is on record about the package."""
    if plan.hold is None:
        return {}
    state, found = node.packages.state(), node.packages.selection(plan.hold)
    if state.interrupted and not state.user:
        raise StepFailed("dpkg was interrupted after planning", reason=Reason.KUBELET_FROM_PACKAGE)
    if found is None:
        reason = Reason.KUBELET_FROM_PACKAGE
        raise StepFailed(f"package {plan.hold.specific} was removed after planning", reason=reason)
    return {"package": plan.hold.specific, SELECTION: found}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Hold it, unless it is held; fail if somebody else works with dpkg."""
    if plan.hold is None or node.packages.selection(plan.hold) == HELD:
        return
    try:
        node.packages.select(plan.hold, HELD)
    except Transient as error:
        raise StepFailed(str(error), reason=Reason.NODE_IN_OTHER_HANDS) from error


def undo(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> str | None:
    """Restore what was on record, where our hold is; leave what somebody else has entered meanwhile, and say so."""
    before = Selection(str(payload.get(SELECTION, HELD)))
    if plan.hold is None or before == HELD:
        return None
    name, found = plan.hold.specific, node.packages.selection(plan.hold)
    if found == HELD:
        try:
            node.packages.select(plan.hold, before)
        except (StepFailed, Transient) as error:
            raise StepFailed(f"package {name} is still held (apt-mark unhold {name} takes it back): {error}") from error
    elif found != before:
        done = "removed" if found is None else f"set to {found}"
        return f"package {name} was {done} by somebody else meanwhile, and left so"
    return None


def is_done(_node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether there is nothing to hold; otherwise do it again."""
    return plan.hold is None
