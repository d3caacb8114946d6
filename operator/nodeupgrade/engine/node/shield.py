"""Use the shield during a run: before the new kubelet starts, and again when the old one comes back.

Nothing here stops a rollback: an old kubelet without the shield is better than no kubelet.
"""

from contextlib import suppress

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.evidence.shown import GO_ON, Lack
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.shield import RefusedCall
from nodeupgrade.engine.node.evidence.tripwire import kubelet_lines, refused_since
from nodeupgrade.engine.node.facts.gather import STATE_DIRECTORY
from nodeupgrade.engine.node.node import SHIELD, Node

LOOK_SECONDS = 0.25
QUIET_SECONDS = 30.0
"""How long a kubelet must not have been refused anything. It repeats a refused call after 10 to 15 s."""


def start(node: Node, plan: RunPlan) -> None:
    """Start the shield's process, which changes nothing yet. Takes a while, so a kubelet should be running.

    Raises:
        StepFailed: it does not start, and the run requires it.
    """
    if plan.shield is None:
        return
    try:
        node.services.start(SHIELD)
    except StepFailed as error:
        if plan.shield.required:
            raise StepFailed(f"the shield does not start: {error}", reason=Reason.SHIELD_UNAVAILABLE) from error


def raise_again(node: Node, plan: RunPlan) -> None:
    """Raise the shield for the old kubelet, if it can be."""
    if plan.shield is not None:
        with suppress(StepFailed):
            node.shield.raise_up()


def end(node: Node, plan: RunPlan) -> None:
    """Lower the shield and end its process.

    Raises:
        StepFailed: the runtime's own socket is not back in its place.
    """
    if plan.shield is not None:
        node.shield.lower()
        if not node.services.status(SHIELD).gone:  # a reboot removes it
            node.services.stop(SHIELD)
        node.shield.clear()


def lack(node: Node, plan: RunPlan) -> Lack | None:
    """Return why the shield has to stay up for the old kubelet; ``None`` once that has been quiet for long enough.

    Waits for a kubelet that just started and has done no harm so far; not for one that keeps restarting.
    """
    if plan.shield is None or not node.shield.raised():
        return None
    settle = plan.limits.rollback_settle
    deadline = node.clock.awake() + settle
    while (started := node.services.status(plan.swap.unit).started) is not None:
        now = node.clock.awake()
        calls = refused_since(node, started)
        if calls and now < AwakeTime(calls[-1].monotonic) + QUIET_SECONDS:
            return Lack(reason=Reason.SHIELD_HELD, why=_still_wanted(node, plan, calls))
        if now >= min(started + settle, deadline) and not node.shield.waiting():
            return None
        node.clock.sleep(LOOK_SECONDS)
    return None


def _still_wanted(node: Node, plan: RunPlan, calls: tuple[RefusedCall, ...]) -> str:
    return (
        f"kubelet {plan.from_version} runs again and wants to {calls[-1]}, which the shield refuses"
        f"{kubelet_lines(node, plan, calls[-1])} "
        f"(to let it have its way: touch {STATE_DIRECTORY}/runs/{plan.run_id}/{GO_ON})"
    )
