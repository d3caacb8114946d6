"""The first call that the shield refuses is proof enough that a kubelet would harm what ran before."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.kubelet_log import cause, read_log
from nodeupgrade.node.shield.rules import RefusedCall


def require_none_refused(node: Node, plan: RunPlan) -> None:
    """Require that the shield has refused nothing since it was raised, also while no executor ran.

    Raises:
        StepFailed: it has; the message names the call.
    """
    raised = (node.recorded(Step.RAISE_SHIELD) or {}).get("monotonic")
    if plan.shield is None or not isinstance(raised, float) or not (calls := refused_since(node, AwakeTime(raised))):
        return
    first, instances = calls[0], {call.instance for call in calls}
    more = f" and to end {len(instances) - 1} more" if len(instances) > 1 else ""
    caller = first.caller or f"kubelet {plan.to_version}"
    raise StepFailed(
        f"{caller} wanted to {first}{more}; the shield refused{kubelet_lines(node, plan, first)}",
        reason=Reason.SHIELD_REFUSED_CALL,
    )


def refused_since(node: Node, since: AwakeTime) -> tuple[RefusedCall, ...]:
    """Return the calls refused since a moment."""
    return tuple(call for call in node.shield.refused() if AwakeTime(call.monotonic) >= since)


def kubelet_lines(node: Node, plan: RunPlan, call: RefusedCall) -> str:
    """Return what the kubelet logged about the instance, to be appended to a message; empty if nothing."""
    return "" if call.caller else cause(read_log(node, plan.swap.unit), call)
