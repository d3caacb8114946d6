"""Cleaning up after a node in flight, in order, before its slot is free."""

from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.cluster.agent_pods import AgentPodView
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.actions import DeleteAgent, FreeSlot, NodeAction, ReleaseTask, RestoreCordon, StartHook
from nodeupgrade.fleet.guard import lifecycle
from nodeupgrade.fleet.hooks import hooks
from nodeupgrade.fleet.snapshot import FleetSnapshot


def _hook_after(fleet: FleetSnapshot, task: Task, now: datetime) -> NodeAction | None:
    return hooks.after(task, fleet.hook_jobs, fleet.setbacks.get((task.name, StartHook)), now)


def end(fleet: FleetSnapshot, node: NodeView, task: Task, now: datetime) -> tuple[NodeAction, ...]:
    """Clean up after the verdict: guard, cordon, agent, hooks and task; once nothing of it remains, free the slot."""
    name, verdict = node.name, task.verdict
    lost = verdict is not None and verdict.outcome is Verdict.ROLLBACK_FAILED
    remains = list[NodeAction]()
    if (lifting := lifecycle.lift(fleet, task, now)) is not None:
        remains.append(lifting)
    if not lost and node.cordoned_by == fleet.upgrade.uid:
        message = f"node {name} is schedulable again"
        remains.append(RestoreCordon(view=node, reason=Reason.UNCORDONED, message=message))
    message = f"the run on node {name} is over"
    remains += [DeleteAgent(pod=p, reason=Reason.PROGRESSING, message=message) for p in pods_of(fleet, name)]
    if (hook := _hook_after(fleet, task, now)) is not None:
        return (*remains, hook)
    if not lost and task.kind is RunKind.UPGRADE and task.spec.action is not TaskAction.RELEASE:
        message = f"node {name} is accounted for"
        remains.append(ReleaseTask(task=task, reason=Reason.PROGRESSING, message=message))
    if remains:
        return tuple(remains)
    reason = Reason.ROLLBACK_FAILED if lost else Reason.PROGRESSING
    message = f"node {name} stays cordoned until it is repaired" if lost else f"node {name} is done"
    return (FreeSlot(node=name, reason=reason, message=message),)


def clear_away(
    fleet: FleetSnapshot, name: NodeName, message: str, now: datetime, failure: NodeFailure | None = None
) -> NodeAction:
    """Delete the agent of a node on which nothing can or need be done, release its task, then free its slot.

    The task outlives the slot: without it, the slot would look like one whose run may continue.
    """
    if pods := pods_of(fleet, name):
        return DeleteAgent(pod=pods[0], reason=Reason.NODE_NOT_FOUND, message=message)
    task = fleet.own_task(name)
    if task is not None and (hook := _hook_after(fleet, task, now)) is not None:
        return hook
    if task is not None and task.open:
        return ReleaseTask(task=task, reason=Reason.NODE_NOT_FOUND, message=message)
    reason = Reason.NODE_NOT_FOUND if failure is None else Reason.NODE_LOST
    return FreeSlot(node=name, reason=reason, message=message, failure=failure)


def pods_of(fleet: FleetSnapshot, name: NodeName) -> tuple[AgentPodView, ...]:
    """Return the pods of a node's run that are still to be deleted."""
    found = (fleet.agents.get(name), fleet.artifacts.get(name))
    return tuple(pod for pod in found if pod is not None and not pod.deleting)
