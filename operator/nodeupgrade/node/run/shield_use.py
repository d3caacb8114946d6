"""Use the shield during a run: before the new kubelet starts, and again when the old one comes back.

Nothing here stops a rollback: an old kubelet without the shield is better than no kubelet.
"""

from collections.abc import Callable
from contextlib import suppress

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.journal.run_store import Rescue, going_on
from nodeupgrade.node.node import SHIELD, Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.kubelet_log import cause, evicts, read_log
from nodeupgrade.node.shield.shield import RefusedCall
from nodeupgrade.node.verification.hidden_containers import Obstacle

CALL_WAITS = "a call waits at the shield, and it is unknown whether it will be refused"
LOOK_SECONDS = 0.25
MEANWHILE_SECONDS = 1.0
WAITS_SECONDS = 15.0
"""How long to wait for the outcome of calls that wait, which is known after the shield's PATIENCE_SECONDS."""
QUIET_SECONDS = 30.0
"""How long a kubelet must not have been refused anything. It repeats a refused call after 10 to 15 s."""


def start(node: Node, plan: RunPlan) -> None:
    """Start the shield's process, which changes nothing yet. It takes a while, so a kubelet should be running.

    Raises:
        StepFailed: it does not start, and the run requires it.
    """
    if plan.shield is None:
        return
    try:
        # An earlier run's may still serve calls under way, for as long as pods may take to end. It is lowered.
        if node.services.status(SHIELD).active_state == "deactivating":
            node.services.kill(SHIELD)
        node.services.start(SHIELD)
    except StepFailed as error:
        if plan.shield.required:
            raise StepFailed(f"the shield does not start: {error}", reason=Reason.SHIELD_UNAVAILABLE) from error


def raise_again(node: Node, plan: RunPlan) -> None:
    """Raise the shield for the old kubelet, if it can be.

    Not where the executor was lost: the shield's process runs from the same copy of the bundle, and may be half dead.
    """
    if plan.shield is not None and node.rescue() is Rescue.NONE:
        with suppress(StepFailed):
            node.shield.raise_up()


def end(node: Node, plan: RunPlan) -> None:
    """Lower the shield, and let its process end once it has served the calls that are under way.

    Raises:
        StepFailed: the runtime's own socket is not back in its place.
    """
    if plan.shield is not None:
        node.shield.lower()
        if not _is_gone(node):
            node.services.stop(SHIELD, wait=False)  # it serves calls under way to their end
        node.shield.clear()


def _is_gone(node: Node) -> bool:
    """Report whether there is no shield to stop, as after a reboot. If systemd does not say, there may be one."""
    try:
        return node.services.status(SHIELD).gone
    except StepFailed:
        return False


def find_obstacle(node: Node, plan: RunPlan, meanwhile: Callable[[], object]) -> Obstacle | None:
    """Return why the shield has to stay up for the old kubelet; ``None`` once that has been quiet for long enough.

    ``meanwhile`` is called about once a second until then.

    Wait for a kubelet that just started and has done no harm so far; not for one that keeps restarting. A kubelet that
    evicts pods is let through: each pod is over in the API as soon as it is chosen, and while none of them can end, the
    kubelet chooses the next one.
    """
    if plan.shield is None or not (node.shield.raised() or node.shield.stands_by()):
        return None
    settle = plan.limits.rollback_settle
    next_call = node.clock.awake()
    deadline = next_call + settle
    while (started := node.services.status(plan.swap.unit).started) is not None:
        now = node.clock.awake()
        calls = _refused_kubelet(node, started)
        if calls and now < AwakeTime(calls[-1].monotonic) + QUIET_SECONDS:
            if evicts(read_log(node, plan.swap.unit)):
                return None
            return Obstacle(reason=Reason.SHIELD_REFUSED_CALL, why=_why_held(node, plan, calls[-1]))
        if now >= min(started + settle, deadline) and not node.shield.waiting():
            return None
        if now >= deadline + WAITS_SECONDS:
            return Obstacle(reason=Reason.SHIELD_REFUSED_CALL, why=CALL_WAITS)
        if now >= next_call:
            meanwhile()
            next_call = now + MEANWHILE_SECONDS
        node.clock.sleep(LOOK_SECONDS)
    return None


def unknown_obstacle(plan: RunPlan, error: str) -> Obstacle:
    """Return that the shield stays up, for as long as for a refused call, since it cannot be told whether it may go."""
    why = f"it is unknown whether the shield refuses calls: {error} {_how_to_go_on(plan, 'lower it')}"
    return Obstacle(reason=Reason.SHIELD_REFUSED_CALL, why=why)


def let_through(node: Node, plan: RunPlan, lowered: AwakeTime) -> tuple[RefusedCall, ...]:
    """Return what the old kubelet still wanted when the shield was lowered, one call for each instance."""
    started = node.services.status(plan.swap.unit).started
    if plan.shield is None or started is None:
        return ()
    recent = (call for call in _refused_kubelet(node, started) if AwakeTime(call.monotonic) + QUIET_SECONDS > lowered)
    return tuple({call.instance: call for call in recent}.values())


def _refused_kubelet(node: Node, started: AwakeTime) -> tuple[RefusedCall, ...]:
    """Return the calls of a kubelet refused since its start. Other callers do not repeat a refused call."""
    return tuple(call for call in _refused_since(node, started) if not call.caller)


def _why_held(node: Node, plan: RunPlan, call: RefusedCall) -> str:
    return (
        f"kubelet {plan.from_version} runs again and wants to {call}, which the shield refuses for "
        f"{plan.limits.shield_hold:.0f} s{kubelet_lines(node, plan, call)} {_how_to_go_on(plan, 'let it through')}"
    )


def _how_to_go_on(plan: RunPlan, wish: str) -> str:
    return f"(to {wish} at once: {going_on(plan.run_id)})"


def require_none_refused(node: Node, plan: RunPlan) -> None:
    """Require that the shield has refused nothing since it was raised, also while no executor ran.

    The first refused call is proof enough that a kubelet would harm what ran before.

    Raises:
        StepFailed: it has; the message names the call.
    """
    raised = (node.recorded(Step.RAISE_SHIELD) or {}).get("monotonic")
    if plan.shield is None or not isinstance(raised, float) or not (calls := _refused_since(node, AwakeTime(raised))):
        return
    first, more = calls[0], and_more(len({call.instance for call in calls}))
    caller = first.caller or f"kubelet {plan.to_version}"
    raise StepFailed(
        f"{caller} wanted to {first}{more}; the shield refused{kubelet_lines(node, plan, first)}",
        reason=Reason.SHIELD_REFUSED_CALL,
    )


def and_more(instances: int) -> str:
    """Return how many instances besides the first are concerned, to be appended to a call; empty if none."""
    return f" and to end {instances - 1} more" if instances > 1 else ""


def _refused_since(node: Node, since: AwakeTime) -> tuple[RefusedCall, ...]:
    return tuple(call for call in node.shield.refused() if AwakeTime(call.monotonic) >= since)


def kubelet_lines(node: Node, plan: RunPlan, call: RefusedCall) -> str:
    """Return what the kubelet logged about the instance, to be appended to a message; empty if nothing."""
    return "" if call.caller else cause(read_log(node, plan.swap.unit), call)
