"""Restores cordons that were left behind: by a NodeUpgrade that was abandoned, or went without its finalizer."""

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.domain.agent_pods import AgentPodView, view_agent_pod
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.actions import NodeAction, RestoreCordon, Wait
from nodeupgrade.domain.rollout.select.orphaned_cordons import decide, is_orphaned
from nodeupgrade.engine.rollout.actuator import cordon, stub
from nodeupgrade.engine.rollout.agent_pod import AGENT_CONTAINER, AGENT_LABELS, ARTIFACT_CONTAINER
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import (
    NODES,
    PODS,
    TASKS,
    ConflictError,
    Event,
    NotFoundError,
    RejectedError,
)


class Sweep:
    """Looks over all Nodes, whoever has a rollout."""

    def __init__(self, kube: TypedKube, fleet: FleetSource, namespace: str) -> None:
        self._kube = kube
        self._fleet = fleet
        self._agents = PODS.within(namespace)
        self._told: set[str] = set()

    async def make(self) -> tuple[NodeAction, ...]:
        """Restore what can be restored, and return what was decided.

        The Nodes are read first: whoever has cordoned one of them is then listed, unless he is gone.
        """
        nodes = await self._fleet.nodes_known()
        suspects = [node for _, node in sorted(nodes.items()) if node.unschedulable and node.cordoned_by]
        if not suspects:
            return ()
        active = frozenset(each.uid for each in (await self._fleet.upgrades_listed()).values() if each.active)
        return tuple([await self._look_at(node) for node in suspects if is_orphaned(node, active)])

    async def _look_at(self, node: NodeView) -> NodeAction:
        task, problem = await self._task(node)
        pod = await self._agent(node)
        decision: NodeAction = decide(node, task, pod, problem)
        if isinstance(decision, RestoreCordon):
            decision = await self._restore(decision, pod)
        await self._tell(node, decision)
        return decision

    async def _restore(self, decision: RestoreCordon, pod: AgentPodView | None) -> NodeAction:
        node = decision.view
        try:
            if pod is not None:
                await self._kube.delete(self._agents, pod.name, uid=pod.uid)
            await self._kube.merge(NODES, node.name, cordon(None), resource_version=node.resource_version)
        except (ConflictError, NotFoundError):
            return Wait(node=node.name, reason=Reason.PROGRESSING, message=f"node {node.name} has changed meanwhile")
        except RejectedError as error:
            return Wait(node=node.name, reason=Reason.WRITE_REFUSED, message=f"node {node.name}: {error}")
        return decision

    async def _tell(self, node: NodeView, decision: NodeAction) -> None:
        """Tell each thing once; it would be told every half minute."""
        if decision.reason is Reason.PROGRESSING or decision.message in self._told:
            return
        self._told.add(decision.message)
        warning = not isinstance(decision, RestoreCordon)
        about = stub(NODES, node.name, node.uid)
        await self._kube.emit_event(
            Event(regarding=about, reason=decision.reason, message=decision.message, warning=warning)
        )
        if not warning:
            self._told.clear()

    async def _task(self, node: NodeView) -> tuple[Task | None, str]:
        """Read the task as it is now, or say why it cannot be read."""
        try:
            return parse_task(await self._kube.get(TASKS, node.name)), ""
        except NotFoundError:
            return None, ""
        except MalformedObjectError as error:
            return None, f"its NodeUpgradeTask cannot be read ({error})"

    async def _agent(self, node: NodeView) -> AgentPodView | None:
        found = await self._kube.list(self._agents, labels=AGENT_LABELS)
        pods = (view_agent_pod(body, AGENT_CONTAINER, ARTIFACT_CONTAINER) for body in found)
        return next((pod for pod in pods if pod.node == node.name), None)
