"""Steps of the shield: raised before the new kubelet starts, lowered once that is verified."""

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import SHIELD_LOWERED, SHIELD_RAISED
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import shield_use, start_preconditions
from nodeupgrade.node.run.steps.actions import Payload, StepActions


class RaiseShield(StepActions):
    """Raise the shield: from now on no kubelet can end what ran before the upgrade."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return whether the shield's process is ready, and the time from which a refused call turns the run back."""
        if plan.shield is None:
            return {}
        return {"ready": node.shield.ready(), "monotonic": node.clock.awake().seconds}

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Raise it. Without its process the run continues, unless it requires the shield."""
        if plan.shield is None:
            return
        if not payload["ready"]:
            if plan.shield.required:
                raise StepFailed("the shield's process does not answer", reason=Reason.SHIELD_UNAVAILABLE)
            return
        node.shield.raise_up()
        node.failpoint(SHIELD_RAISED)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Lower it: no kubelet runs, and this run needs the runtime itself. StopKubelet's undo raises it again.

        A runtime that was killed leaves its socket, so the shield waits for it, although systemd may have given it up.
        """
        if plan.shield is None:
            return
        try:
            node.shield.lower()
        except StepFailed:
            start_preconditions.start_runtime(node, plan)
            node.shield.lower()

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether a kubelet that connects now reaches the shield."""
        return plan.shield is not None and node.shield.raised()


class LowerShield(StepActions):
    """Lower the shield: the new kubelet is verified, and is the runtime's only client again. The end is the commit."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Put the runtime's own socket back by one rename; calls under way are completed."""
        if plan.shield is not None:
            node.shield.lower()
            node.failpoint(SHIELD_LOWERED)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Raise it again, if it can be: the new kubelet still runs."""
        shield_use.raise_again(node, plan)

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether a kubelet that connects now reaches the runtime."""
        return plan.shield is None or not node.shield.raised()
