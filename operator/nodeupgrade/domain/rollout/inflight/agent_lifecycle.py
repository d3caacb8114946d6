"""Seeing to it that a run has an agent until it is over, and that it does get over.

What may be concluded from silence: an agent touches nothing before its first status was accepted. So a run of which
nothing was ever heard, and which has no agent pod any more, left the node untouched. The same holds for one that was
heard of, but not yet as ``Staged``: that is told, and must be heard, before anything is handed over. It does not hold
where an earlier task of the same node was lost: then only an agent that reads the node can tell.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.domain.agent_pods import AgentPodView
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.rollout.actions import Abort, CreateAgent, DeleteAgent, GiveUp, NodeAction, Wait
from nodeupgrade.domain.rollout.backoff import Setback, rest

AGENT_MAY_TAKE = timedelta(minutes=3)
"""How long an agent may take to start although a problem shows, and to answer once its time is up."""

UNSTARTED_AFTER = timedelta(minutes=1)
"""Age from which a pod that its kubelet has not begun to start is told of."""

_WANTED = frozenset({TaskAction.UPGRADE, TaskAction.PRECHECK})
_BEFORE_HANDOVER = frozenset({TaskPhase.PENDING, TaskPhase.STAGING, TaskPhase.PRECHECKING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """How it stands with a run's agents.

    Attributes:
        pod: the one that is there.
        lost: how many before it, in a row, did not live long.
        refused: that the API server does not let one be created.
    """

    pod: AgentPodView | None = None
    lost: int = 0
    refused: Setback | None = None

    @property
    def unavailable(self) -> bool:
        """Whether it was tried, and in vain."""
        return self.lost > 0 or self.refused is not None


def attend(task: Task, agents: Agents, called_off: Finding | None, now: datetime) -> NodeAction:
    """Return the next action for a run that is not over, given the node's agents and whether it is called off."""
    pod, wanted, deadline = agents.pod, task.spec.action in _WANTED, task.spec.deadline
    if wanted and called_off is not None:
        message = f"the run on node {task.name} is called off: {called_off.detail}"
        return Abort(node=task.name, task=task, reason=called_off.reason, message=message)
    if wanted and deadline is not None and now > deadline:
        message = sentence(Reason.ABORTED, f"node {task.name} took longer than spec.timeouts.node")
        return Abort(node=task.name, task=task, reason=Reason.ABORTED, message=message)
    if pod is None:
        return _without_pod(task, agents, now)
    if pod.deleting:
        return _leaving(task, pod, now)
    if pod.run_id != task.spec.run_id:
        message = f"agent pod {pod.name} serves another run"
        return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_REPLACED, message=message)
    if is_untouched(task) and (action := _doubt(task, pod, now)) is not None:
        return action
    return _replace(task, pod, agents.lost, now) if pod.over else _wait(task, pod, now)


def _without_pod(task: Task, agents: Agents, now: datetime) -> NodeAction:
    """Create one, unless none is needed any more to know that the node is untouched."""
    if task.spec.action not in _WANTED:
        safe = is_untouched(task) and (_silent(task) or agents.unavailable)
        return _give_up(task) if safe else _create(task)
    if _silent(task) and agents.refused is not None and now > agents.refused.since + AGENT_MAY_TAKE:
        message = agents.refused.finding(task.name).message
        return Abort(node=task.name, task=task, reason=Reason.AGENT_UNAVAILABLE, message=message)
    return _create(task)


def _leaving(task: Task, pod: AgentPodView, now: datetime) -> NodeAction:
    """Wait for a pod to go, but not for ever: a kubelet that is dead confirms nothing.

    Should that pod's agent live on, it finds the run called off before it begins anything.
    """
    overdue = pod.deleted_at is not None and now > pod.deleted_at + AGENT_MAY_TAKE
    if overdue and task.spec.action not in _WANTED and _silent(task) and is_untouched(task):
        return _give_up(task)
    if overdue:
        return _unavailable(task, pod, "is being deleted, and its kubelet does not confirm it")
    return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"agent pod {pod.name} is going away")


def _wait(task: Task, pod: AgentPodView, now: datetime) -> Wait:
    """Wait for what the agent reports, and say why if nothing can come."""
    if pod.blocked:
        return _unavailable(task, pod, f"cannot start: {pod.blocked}", artifact=pod.blocked_on_artifact)
    if not pod.started and now > pod.created_at + UNSTARTED_AFTER:
        return _unavailable(task, pod, "has not been started by the node's kubelet")
    return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"node {task.name} reports {task.reported.phase}")


def _unavailable(task: Task, pod: AgentPodView, why: str, *, artifact: bool = False) -> Wait:
    reason = Reason.ARTIFACT_UNAVAILABLE if artifact else Reason.AGENT_UNAVAILABLE
    unknown = "" if is_untouched(task) else f", so what became of the run on node {task.name} is not known"
    return Wait(node=task.name, reason=reason, message=sentence(reason, f"agent pod {pod.name} {why}{unknown}"))


def is_untouched(task: Task) -> bool:
    """Whether nothing can have been handed over to an executor, unless an agent goes on now."""
    return not task.spec.resumes and (_silent(task) or task.reported.phase in _BEFORE_HANDOVER)


def _silent(task: Task) -> bool:
    """Whether nothing was ever heard of this run."""
    return task.status.run_id != task.spec.run_id


def _create(task: Task) -> CreateAgent:
    replaced = not _silent(task)
    reason = Reason.AGENT_REPLACED if replaced else Reason.AGENT_STARTED
    message = f"an agent is {'started again' if replaced else 'started'} on node {task.name}"
    return CreateAgent(node=task.name, task=task, reason=reason, message=message)


def _replace(task: Task, pod: AgentPodView, lost: int, now: datetime) -> NodeAction:
    """Let another agent take its place, after a while that grows: what killed the one may kill the next."""
    if now < pod.created_at + rest(lost + 1):
        why = f"cannot run: {pod.blocked}" if pod.blocked else f"ended ({pod.ended or pod.phase}) before the run did"
        if lost or pod.blocked:
            return _unavailable(task, pod, why)
        message = f"agent pod {pod.name} ended and is replaced soon"
        return Wait(node=task.name, reason=Reason.PROGRESSING, message=message)
    message = f"agent pod {pod.name} ended ({pod.phase}) before the run did"
    return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_REPLACED, message=message)


def _doubt(task: Task, pod: AgentPodView, now: datetime) -> NodeAction | None:
    """Decide about a pod that has said nothing yet: call the run off if it cannot start, remove it if it is off."""
    patience_ends = pod.created_at + AGENT_MAY_TAKE
    if task.spec.action not in _WANTED:
        overdue = now > max(patience_ends, (task.spec.deadline or now) + AGENT_MAY_TAKE)
        if (pod.started or not (_silent(task) or pod.blocked)) and not overdue:
            return None
        message = f"agent pod {pod.name} {'has said nothing' if _silent(task) else 'says nothing more'}"
        return DeleteAgent(node=task.name, pod=pod, reason=Reason.AGENT_UNAVAILABLE, message=message)
    if not _silent(task) or pod.started or not pod.blocked or not (pod.over or now > patience_ends):
        return None
    reason = Reason.ARTIFACT_UNAVAILABLE if pod.blocked_on_artifact else Reason.AGENT_UNAVAILABLE
    message = sentence(reason, f"agent pod {pod.name} cannot start: {pod.blocked}")
    return Abort(node=task.name, task=task, reason=reason, message=message)


def _give_up(task: Task) -> GiveUp:
    """Report for the agent that never was; the reason is the one for which the run was called off."""
    told, message = task.spec.action_reason, task.spec.action_message
    reason = Reason.ARTIFACT_UNAVAILABLE if told == Reason.ARTIFACT_UNAVAILABLE.value else Reason.AGENT_UNAVAILABLE
    if told != reason.value:
        heard = "has ever reported" if _silent(task) else f"has reported since it was {task.reported.phase}"
        message = sentence(reason, f"no agent on node {task.name} {heard}, and nothing was begun")
    return GiveUp(node=task.name, task=task, reason=reason, message=message)
