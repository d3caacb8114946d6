"""Orphaned cordons: those of a NodeUpgrade that is gone or has ended, and when it is safe to remove them."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.agent_pods import AgentPodView
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.actions import RestoreCordon, Wait

_NEVER_BEGUN = frozenset({TaskAction.WAIT, TaskAction.RELEASE})


def is_orphaned(node: NodeView, active_upgrades: frozenset[str]) -> bool:
    """Report whether a node carries a cordon of ours whose NodeUpgrade is no longer active."""
    return bool(node.unschedulable and node.cordoned_by) and node.cordoned_by not in active_upgrades


def restore_or_wait(
    node: NodeView, task: Task | None, pod: AgentPodView | None, problem: str = ""
) -> RestoreCordon | Wait:
    """Remove a cordon that is orphaned if the run for which it was made is over; else report why not.

    Task and agent pod are None if there is none; ``problem`` says why the task cannot be read, if so.
    """
    obstacle = problem or _obstacle(node, task, pod)
    if not obstacle:
        message = f"node {node.name} is schedulable again: the NodeUpgrade that cordoned it is gone and its run is over"
        return RestoreCordon(view=node, reason=Reason.UNCORDONED, message=message)
    detail = f"node {node.name} is still cordoned by a NodeUpgrade that is gone or over: {obstacle}"
    message = sentence(Reason.CORDON_LEFT_BEHIND, detail)
    return Wait(node=node.name, reason=Reason.CORDON_LEFT_BEHIND, message=message)


def _obstacle(node: NodeView, task: Task | None, pod: AgentPodView | None) -> str:
    """Return why an executor may be at work or a person is needed; empty if neither is the case."""
    if task is None or (task.spec.node_uid, task.spec.upgrade_ref.uid) != (node.uid, node.cordoned_by):
        return "its NodeUpgradeTask is gone, so it is unknown whether its run has ended"
    if pod is not None and not pod.over:
        return f"agent pod {pod.name} is at work"
    if task.reported.phase is TaskPhase.ROLLBACK_FAILED:
        return "it could not be rolled back"
    if task.reported.phase.terminal or (task.spec.action in _NEVER_BEGUN and task.spec.verdict is None):
        return ""
    return f"its run is not over ({task.reported.phase})"
