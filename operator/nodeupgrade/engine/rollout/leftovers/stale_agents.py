"""Deletes agent pods that serve no run: for example one that a former leader created after the run was over."""

from datetime import datetime, timedelta

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.domain.agent_pods import AgentPodView, view_agent_pod
from nodeupgrade.engine.rollout.agent_pod import AGENT_CONTAINER, AGENT_LABELS, ARTIFACT_CONTAINER
from nodeupgrade.ports.kube import PODS, TASKS, ConflictError, KubeApi, NotFoundError, RejectedError

UNDOUBTED = timedelta(minutes=10)
"""Age up to which an agent that has not ended is left alone: usually, its rollout deletes it."""


async def remove_stale_agents(kube: KubeApi, namespace: str, now: datetime) -> tuple[AgentPodView, ...]:
    """Delete the agent pods whose runs are not asked for, and return them.

    What an agent has started on its node is not affected; if that matters, its task is open and asks for the run.

    Raises:
        UnavailableError: They cannot be listed or deleted at the moment.
    """
    agents, removed = PODS.within(namespace), list[AgentPodView]()
    for body in await kube.list(agents, labels=AGENT_LABELS):
        pod = view_agent_pod(body, AGENT_CONTAINER, ARTIFACT_CONTAINER)
        doubted = pod.over or now > pod.created_at + UNDOUBTED
        if pod.deleting or not doubted or await _is_asked_for(kube, pod):
            continue
        try:
            await kube.delete(agents, pod.name, uid=pod.uid)
        except (ConflictError, RejectedError):
            continue  # it is another one already, or the next look tries again
        removed.append(pod)
    return tuple(removed)


async def _is_asked_for(kube: KubeApi, pod: AgentPodView) -> bool:
    """Report whether a task asks for the run of a pod; a task that cannot be read may."""
    try:
        task = parse_task(await kube.get(TASKS, pod.node))
    except NotFoundError:
        return False
    except MalformedObjectError:
        return True
    return task.open and task.spec.run_id == pod.run_id
