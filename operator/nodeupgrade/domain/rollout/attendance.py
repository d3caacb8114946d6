"""Seeing to it that a run has an agent until it is over, and that it does get over.

What may be concluded from silence: an agent touches nothing before its first status was accepted. So a run of which
nothing was ever heard, and which has no agent pod any more, left the node untouched.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from nodeupgrade.domain.reasons import Reason, sentence
from nodeupgrade.domain.rollout.actions import Abort, CreateAgent, DeleteAgent, GiveUp, NodeAction, Wait
from nodeupgrade.domain.task import Task, TaskAction
from nodeupgrade.domain.views import AgentPodView

AGENT_MAY_TAKE = timedelta(minutes=3)
"""How long an agent may take to start although a problem shows, and to answer once its time is up."""

AGENT_REPLACED_AFTER = timedelta(seconds=10)
"""Age below which a failed agent pod is not replaced, so that a crash loop does not become a storm."""


_WANTED = frozenset({TaskAction.UPGRADE, TaskAction.PRECHECK})


def attend(task: Task, pod: AgentPodView | None, called_off: tuple[Reason, str] | None, now: datetime) -> NodeAction:
    """Return the next action for a run that is not over, given the node's agent pod and whether it is called off."""
    wanted, deadline = task.spec.action in _WANTED, task.spec.deadline
    if wanted and called_off is not None:
        reason, because = called_off
        message = f"the run on node {task.name} is called off: {because}"
        return Abort(node=task.name, task=task, reason=reason, message=message)
    if wanted and deadline is not None and now > deadline:
        message = sentence(Reason.ABORTED, f"node {task.name} took longer than spec.timeouts.node")
        return Abort(node=task.name, task=task, reason=Reason.ABORTED, message=message)
    if pod is None:
        return _give_up(task) if _silent(task) and not wanted else _create(task)
    if pod.deleting:
        return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"agent pod {pod.name} is going away")
    if pod.run_id != task.spec.run_id:
        message = f"agent pod {pod.name} serves another run"
        return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_REPLACED, message=message)
    if _silent(task) and (action := _doubt(task, pod, now)) is not None:
        return action
    if pod.over:
        return _replace(task, pod, now)
    return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"node {task.name} reports {task.reported.phase}")


def _silent(task: Task) -> bool:
    """Whether nothing was ever heard of this run."""
    return task.status.run_id != task.spec.run_id


def _create(task: Task) -> CreateAgent:
    replaced = not _silent(task)
    reason = Reason.AGENT_REPLACED if replaced else Reason.AGENT_STARTED
    message = f"an agent is {'started again' if replaced else 'started'} on node {task.name}"
    return CreateAgent(node=task.name, task=task, reason=reason, message=message)


def _replace(task: Task, pod: AgentPodView, now: datetime) -> NodeAction:
    if now - pod.created_at < AGENT_REPLACED_AFTER:
        message = f"agent pod {pod.name} ended and is replaced soon"
        return Wait(node=task.name, reason=Reason.PROGRESSING, message=message)
    message = f"agent pod {pod.name} ended ({pod.phase}) before the run did"
    return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_REPLACED, message=message)


def _doubt(task: Task, pod: AgentPodView, now: datetime) -> NodeAction | None:
    """Decide about a pod that has said nothing yet: call the run off if it cannot start, remove it if it is off."""
    patience_ends = pod.created_at + AGENT_MAY_TAKE
    if task.spec.action not in _WANTED:
        overdue = now > max(patience_ends, (task.spec.deadline or now) + AGENT_MAY_TAKE)
        if pod.started and not overdue:
            return None
        message = f"agent pod {pod.name} has said nothing"
        return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_UNAVAILABLE, message=message)
    if pod.started or not pod.blocked or not (pod.over or now > patience_ends):
        return None
    reason = Reason.ARTIFACT_UNAVAILABLE if pod.blocked_on_artifact else Reason.AGENT_UNAVAILABLE
    message = sentence(reason, f"agent pod {pod.name} cannot start: {pod.blocked}")
    return Abort(node=task.name, task=task, reason=reason, message=message)


def _give_up(task: Task) -> GiveUp:
    """Report for the agent that never was; the reason is the one for which the run was called off."""
    told, message = task.spec.action_reason, task.spec.action_message
    reason = Reason.ARTIFACT_UNAVAILABLE if told == Reason.ARTIFACT_UNAVAILABLE.value else Reason.AGENT_UNAVAILABLE
    if told != reason.value:
        message = sentence(reason, f"no agent on node {task.name} has ever reported, and the node is untouched")
    return GiveUp(node=task.name, task=task, reason=reason, message=message)
