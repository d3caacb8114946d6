"""The lifecycle of agent pods: keeps an agent for every run until it is over, and makes sure that it ends.

An agent touches nothing before the API server has accepted its first status. So if a run never reported a status and
its agent pod is gone, the node is untouched. The same holds for a run that has not yet reported ``Staged``: the agent
must have reported that before it hands over to the executor. Neither conclusion holds if an earlier task of the node
was lost: then only an agent that inspects the node can tell.

A kubelet in an image needs another pod first, which takes it out; the agent is created once that pod has done so, and
learns which pod it was. That pod changes nothing on the node either, so the same conclusions hold for it.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import BEFORE_HANDOVER, Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import PodUid
from nodeupgrade.api.wording import sentence, with_remedy
from nodeupgrade.cluster.agent_pods import AgentPodView, PodRole
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import Abort, CreateAgent, DeleteAgent, GiveUp, NodeAction, Wait
from nodeupgrade.fleet.setbacks import LostAgents, Setback, retry_delay

AGENT_MAY_TAKE = timedelta(minutes=3)
"""How long an agent may take to start despite a reported problem, and to report after its deadline."""

UNSTARTED_AFTER = timedelta(minutes=1)
"""Age from which an agent pod that the kubelet has not started is reported."""

UNHEARD_AFTER = timedelta(minutes=1)
"""How long an agent may run without having reported anything before that is reported."""

_WANTED = frozenset({TaskAction.UPGRADE, TaskAction.PRECHECK})
_NEVER_STARTED = frozenset({Reason.AGENT_NOT_STARTED, Reason.ARTIFACT_UNAVAILABLE})
"""Reasons for which a run is called off before any of its agents has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents of one run."""

    pod: AgentPodView | None = None  # the current agent pod; None if there is none
    artifact: AgentPodView | None = None  # the pod that takes the kubelet out of its image; None if there is none
    lost: LostAgents = field(default_factory=LostAgents)  # the agents that ended early
    refused: Setback | None = None  # the failed attempts to create one; None if there are none


def next_agent_action(task: Task, agents: Agents, called_off: Finding | None, now: datetime) -> NodeAction:
    """Return the next action for a run that is not over; ``called_off`` says why it must stop, if it must."""
    pod = agents.pod or _unfinished(task, agents.artifact)
    wanted = task.spec.action in _WANTED
    if wanted and called_off is not None:
        message = f"the run on node {task.name} is called off: {called_off.detail}"
        return Abort(task=task, reason=called_off.reason, message=message)
    if wanted and task.is_late(now):
        message = sentence(Reason.ABORTED, f"node {task.name} took longer than spec.timeouts.node")
        return Abort(task=task, reason=Reason.ABORTED, message=message)
    if pod is None:
        return _without_pod(task, agents, now)
    if pod.deleting:
        return _leaving(task, pod, agents, now)
    if pod.run_id != task.spec.run_id:
        message = f"{_named(pod)} serves another run"
        return DeleteAgent(pod=pod, reason=Reason.AGENT_REPLACED, message=message)
    if task.untouched and (action := _doubt(task, pod, agents.lost.count, now)) is not None:
        return action
    return _replace(task, pod, agents.lost.count, now) if pod.over else _wait(task, pod, now)


def _without_pod(task: Task, agents: Agents, now: datetime) -> NodeAction:
    """Create an agent, unless the node is known to be untouched and the run is to stop anyway."""
    if task.spec.action not in _WANTED:
        tried = agents.lost.count > 0 or agents.refused is not None
        safe = task.untouched and (not task.has_reported or tried)
        return _give_up(task, agents) if safe else _create(task, agents)
    if not task.has_reported and agents.refused is not None and now > agents.refused.since + AGENT_MAY_TAKE:
        reason = _unstarted(agents.lost.count)
        remedy = _then_retry(agents.refused.remedy) or reason.remedy
        message = with_remedy(f"node {task.name}: {agents.refused.problem}", remedy)
        return Abort(task=task, reason=reason, message=message)
    return _create(task, agents)


def _unfinished(task: Task, artifact: AgentPodView | None) -> AgentPodView | None:
    """Return the artifact's pod as long as an agent has to wait for it, or it must be deleted before a new one."""
    if artifact is None or _has_files(task, artifact):
        return None
    return artifact if needs_artifact(task) or artifact.run_id != task.spec.run_id else None


def _has_files(task: Task, artifact: AgentPodView) -> bool:
    """Report whether a pod holds the files of this run: those of a pod that has ended are removed by the kubelet."""
    return artifact.run_id == task.spec.run_id and artifact.started and not artifact.over and not artifact.deleting


def needs_artifact(task: Task) -> bool:
    """Report whether an agent needs a file of an image: not once it has handed over, nor to end a run."""
    before = not task.has_reported or task.reported.phase in BEFORE_HANDOVER
    return task.spec.artifact.kind is ArtifactKind.IMAGE and task.spec.action in _WANTED and before


def _leaving(task: Task, pod: AgentPodView, agents: Agents, now: datetime) -> NodeAction:
    """Wait for a deleted pod to disappear, but not forever: a dead kubelet does not confirm the deletion.

    If that pod's agent is still alive, it finds the run called off before it begins anything.
    """
    overdue = pod.deleted_at is not None and now > pod.deleted_at + AGENT_MAY_TAKE
    if overdue and task.spec.action not in _WANTED and not task.has_reported and task.untouched:
        return _give_up(task, agents)
    if overdue:
        return _unavailable(task, pod, "is being deleted, and its kubelet does not confirm it")
    return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"{_named(pod)} is going away")


def _wait(task: Task, pod: AgentPodView, now: datetime) -> Wait:
    """Wait for the agent to report; if it cannot run, report why."""
    if pod.blocked:
        why, remedy = f"cannot start: {pod.blocked}", _pull_remedy(task, pod)
        return _unavailable(task, pod, why, artifact=pod.blocked_on_artifact, remedy=remedy)
    if not pod.started and now > pod.created_at + UNSTARTED_AFTER:
        return _unavailable(task, pod, "has not been started by the node's kubelet")
    if not task.has_reported and pod.running_since is not None and now > pod.running_since + UNHEARD_AFTER:
        return _unavailable(task, pod, f"runs since {timestamp(pod.running_since)} and has not reported anything")
    return Wait(node=task.name, reason=Reason.PROGRESSING, message=f"node {task.name} reports {task.reported.phase}")


def _unavailable(task: Task, pod: AgentPodView, why: str, *, artifact: bool = False, remedy: str | None = None) -> Wait:
    reason = Reason.ARTIFACT_UNAVAILABLE if artifact else Reason.AGENT_UNAVAILABLE
    unknown = "" if task.untouched else f", so what became of the run on node {task.name} is not known"
    message = with_remedy(f"{_named(pod)} {why}{unknown}", remedy or reason.remedy)
    return Wait(node=task.name, reason=reason, message=message)


def _named(pod: AgentPodView) -> str:
    return f"{pod.role.value} pod {pod.name}"


def _pull_remedy(task: Task, pod: AgentPodView) -> str | None:
    """Return what to do about an image that cannot be had; None if that is not what keeps the pod from starting."""
    if not pod.cannot_pull:
        return None
    if not pod.blocked_on_artifact:
        return "push the image, or correct the operator's (chart: image.repository, image.tag, imagePullSecrets)"
    if secret := task.spec.artifact.pull_secret:
        return f"push the image, correct the Secret {secret} in the operator's namespace, or create another NodeUpgrade"
    return "push the image, or create another NodeUpgrade, with a pullSecret if the registry asks for a password"


def _then_retry(remedy: str | None) -> str | None:
    """Return the remedy for a node whose run has ended."""
    return None if remedy is None else f"{remedy}, then retry"


def _create(task: Task, agents: Agents) -> CreateAgent:
    """Create the agent, or first the pod with its artifact."""
    artifact = agents.artifact if agents.artifact is not None and _has_files(task, agents.artifact) else None
    replaced = task.has_reported
    reason = Reason.AGENT_REPLACED if replaced else Reason.AGENT_STARTED
    if artifact is None and needs_artifact(task):
        message = f"the kubelet is taken out of its image on node {task.name}"
        return CreateAgent(task=task, role=PodRole.ARTIFACT, reason=reason, message=message)
    message = f"an agent is {'started again' if replaced else 'started'} on node {task.name}"
    uid = None if artifact is None else PodUid(artifact.uid)
    return CreateAgent(task=task, artifact=uid, reason=reason, message=message)


def _replace(task: Task, pod: AgentPodView, lost: int, now: datetime) -> NodeAction:
    """Replace an agent that ended, after a growing delay: what ended this one may end the next."""
    if now < pod.created_at + retry_delay(lost + 1):
        why = f"cannot run: {pod.blocked}" if pod.blocked else f"ended ({pod.ended or pod.phase}) before the run did"
        of_artifact = pod.role is PodRole.ARTIFACT
        if lost or pod.blocked or of_artifact:
            return _unavailable(task, pod, why, artifact=of_artifact and not pod.blocked)
        message = f"{_named(pod)} ended and is replaced soon"
        return Wait(node=task.name, reason=Reason.PROGRESSING, message=message)
    message = f"{_named(pod)} ended ({pod.phase}) before the run did"
    return DeleteAgent(pod=pod, reason=Reason.AGENT_REPLACED, message=message)


def _unstarted(lost: int) -> Reason:
    """Return the reason for calling off a run without an agent: whether one of them may have started before."""
    return Reason.AGENT_UNAVAILABLE if lost else Reason.AGENT_NOT_STARTED


def _doubt(task: Task, pod: AgentPodView, lost: int, now: datetime) -> NodeAction | None:
    """Decide about an agent on an untouched node: abort the run if it cannot start, delete it if the run must stop."""
    patience_ends = pod.created_at + AGENT_MAY_TAKE
    if task.spec.action not in _WANTED:
        overdue = now > max(patience_ends, (task.spec.deadline or now) + AGENT_MAY_TAKE)
        if (pod.started or not (not task.has_reported or pod.blocked)) and not overdue:
            return None
        message = f"{_named(pod)} {'has said nothing' if not task.has_reported else 'says nothing more'}"
        return DeleteAgent(pod=pod, reason=Reason.AGENT_UNAVAILABLE, message=message)
    if task.has_reported or pod.started or not pod.blocked or not (pod.over or now > patience_ends):
        return None
    reason = Reason.ARTIFACT_UNAVAILABLE if pod.blocked_on_artifact and not lost else _unstarted(lost)
    remedy = _then_retry(_pull_remedy(task, pod)) or reason.remedy
    message = with_remedy(f"{_named(pod)} cannot start: {pod.blocked}", remedy)
    return Abort(task=task, reason=reason, message=message)


def _give_up(task: Task, agents: Agents) -> GiveUp:
    """Report the end of the run on behalf of the missing agent, with the reason for which it was called off.

    A node is refused if no agent had started by then: one that starts later finds the run called off. Otherwise it has
    failed, although nothing was begun: what ends an agent may well end the next, on other nodes too.
    """
    given, message, phase = task.spec.action_reason, task.spec.action_message, TaskPhase.FAILED
    reason = next((each for each in _NEVER_STARTED if given == each.value), Reason.AGENT_UNAVAILABLE)
    if reason in _NEVER_STARTED and not task.has_reported:
        phase = TaskPhase.REFUSED
    elif given != Reason.AGENT_UNAVAILABLE.value:
        reason = Reason.AGENT_UNAVAILABLE
        report = "has ever reported" if not task.has_reported else f"has reported since it was {task.reported.phase}"
        why = f"; the last one ended: {agents.lost.why}" if agents.lost.why else ""
        message = sentence(reason, f"no agent on node {task.name} {report}, and nothing was begun{why}")
    return GiveUp(task=task, phase=phase, reason=reason, message=message)
