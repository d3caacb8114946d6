"""Check that the runtime shows everything that still runs, before hashes or a kubelet depend on it."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.findings.finding import named
from nodeupgrade.node.journal.run_store import going_on
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import runtime_ports, start_preconditions
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.verification.hidden_containers import Obstacle, find_hidden

PATIENCE_SECONDS = 10.0
"""How long to wait for a runtime that was just restarted before it counts as not answering."""


def find_obstacle(node: Node, plan: RunPlan, *, rebooted: bool) -> Obstacle | None:
    """Return why the old kubelet must not be started on this runtime; ``None`` if it may.

    If a kubelet runs already, nothing is required; after a reboot, which ended everything, only an answer.
    """
    try:
        if node.services.status(plan.swap.unit).main_pid:
            return None
        now = _inventory(node, plan)
        hidden = () if rebooted else find_hidden(plan, now, node.runtime.alive)
        if hidden:
            start_preconditions.restart_for_logs(node, plan)
    except Transient:
        why = f"the runtime does not answer{runtime_ports.who_has_one(node, plan)}"
        return Obstacle(reason=Reason.RUNTIME_DID_NOT_ANSWER, why=why)
    except StepFailed as error:
        anyway = f" {how_to_go_on(plan)}" if error.reason is Reason.STEP_FAILED else ""
        return Obstacle(reason=error.reason, why=f"{error}{runtime_ports.who_has_one(node, plan)}{anyway}")
    if not hidden:
        return None
    anyway = how_to_go_on(plan, "creates them a second time")
    return Obstacle(
        reason=Reason.RUNTIME_LOST_PODS,
        why=f"the runtime does not show {len(hidden)} of the instances that still run: {named(hidden, 3)} {anyway}",
    )


def how_to_go_on(plan: RunPlan, consequence: str = "may create pods a second time") -> str:
    """Return how a person overrules what keeps the old kubelet from its start, to be appended to a message."""
    return f"(to start the kubelet nevertheless, which {consequence}: {going_on(plan.run_id)})"


def require_shown(node: Node, plan: RunPlan, now: Inventory) -> None:
    """Check what the runtime shows: it may have been restarted, and what it does not show has not ended for that.

    Raises:
        StepFailed: the runtime does not show everything that still runs.
    """
    if hidden := find_hidden(plan, now, node.runtime.alive):
        raise StepFailed(
            f"the runtime does not show {len(hidden)} of the instances that still run, such as {hidden[0]}",
            reason=Reason.RUNTIME_LOST_PODS,
        )


def _inventory(node: Node, plan: RunPlan) -> Inventory:
    try:
        return node.runtime.inventory()
    except Unimplemented:
        start = start_preconditions.restart_for_cri
    except Transient:
        start = start_preconditions.start_runtime
    try:
        start(node, plan)
    except StepFailed as error:
        if error.reason is not Reason.STEP_FAILED:
            raise
        raise StepFailed(str(error), reason=Reason.RUNTIME_DID_NOT_ANSWER) from error
    node.runtime.wait_until_answering(PATIENCE_SECONDS)
    return node.runtime.inventory()
