"""Deletes agent pods that serve no run: for example one that a former leader created after the run was over."""

from datetime import datetime, timedelta

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, AgentPodView
from nodeupgrade.cluster.kube_api import PODS, TASKS, ConflictError, KubeApi, NotFoundError, RejectedError
from nodeupgrade.fleet.agents.manifests import view_agent

UNDOUBTED = timedelta(minutes=10)
"""Age up to which an agent that has not ended is left alone: usually, its rollout deletes it."""


async def remove_stale_agents(kube: KubeApi, namespace: str, now: datetime) -> None:
    """Delete the agent pods whose runs are not requested.

    What an agent has started on its node is not affected; if that matters, its task is open and requests the run.

    Raises:
        UnavailableError: They cannot be listed or deleted at the moment.
    """
    agents = PODS.within(namespace)
    for body in await kube.list(agents, labels=AGENT_LABELS):
        pod = view_agent(body)
        aged = now > pod.created_at + UNDOUBTED
        if not (pod.over or aged) or await _is_spoken_for(kube, pod, aged=aged):
            continue
        try:
            # The task may have been released since the pods were listed, after its rollout has deleted this one.
            if view_agent(await kube.get(agents, pod.name)).deleting:
                continue
            await kube.delete(agents, pod.name, uid=pod.uid)
        except (ConflictError, NotFoundError, RejectedError):
            continue  # it is another one already, or the next look tries again


async def _is_spoken_for(kube: KubeApi, pod: AgentPodView, *, aged: bool) -> bool:
    """Report whether a task asks for the run of a pod, or its rollout is about to delete the pod.

    A task that cannot be read may ask for it.
    """
    try:
        task = parse_task(await kube.get(TASKS, pod.node))
    except NotFoundError:
        return False
    except MalformedObjectError:
        return True
    if task.spec.run_id != pod.run_id:
        return False
    judged = task.verdict is not None and task.spec.action is not TaskAction.RELEASE
    return task.open or (judged and not aged)
