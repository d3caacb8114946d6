"""Tasks that no rollout manages any more: their Nodes or their rollouts are gone, and no run is in progress.

What a run has come to stays with its Node. A task whose run never began would be shown as pending for ever: it is
deleted, or marked as released if a rollout that exists has had a run on the node.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import MalformedObjectError, to_json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, ConflictError, NotFoundError, RejectedError
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.agents.manifests import view_agent
from nodeupgrade.fleet.caches.fleet_source import FleetSource
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade, nodes_in_flight
from nodeupgrade.fleet.failures import records_failure


async def clean_leftover_tasks(kube: TypedKube, source: FleetSource, namespace: str) -> None:
    """Delete the tasks without a Node or a record, and release those without a run in progress.

    The other tasks whose run never began are marked. Tasks are read before NodeUpgrades: the owner of a task is then in
    the list, unless it is gone.
    """
    nodes = await source.get_nodes()
    tasks = tuple((await source.get_tasks()).values())
    suspects = [task for task in tasks if task.open or _never_began(task) or task.name not in nodes]
    if not suspects:
        return
    known = {each.uid: each for each in (await source.list_upgrades()).values()}
    left = LeftoverTasks(kube, known, nodes_in_flight(known.values()))
    idle = [task for task in suspects if left.includes(task)]
    gone = [task.name for task in idle if task.name not in nodes and not left.is_counted(task)]
    empty = [task.name for task in idle if task.name in nodes and left.is_empty(task)]
    ownerless = [task for task in idle if task.spec.upgrade_ref.uid not in known and task.name in nodes]
    over = [task.name for task in ownerless if _is_over(task, nodes[task.name])]
    kept = [task.name for task in ownerless if _is_pending(task) and not left.is_empty(task)]
    if not gone and not empty and not over and not kept:
        return
    pods = map(view_agent, await kube.list(PODS.within(namespace), labels=AGENT_LABELS))
    agents = frozenset(pod.node for pod in pods if not pod.over)
    for name in (*gone, *empty):
        await left.delete(name, agents)
    for name in over:
        if name not in agents:
            await left.release(name)
    for name in kept:
        if name not in agents:
            await left.mark(name)


@dataclass(frozen=True, slots=True)
class LeftoverTasks:
    """The tasks that no rollout manages, given all rollouts."""

    kube: TypedKube
    known: Mapping[str, KnownUpgrade]  # all NodeUpgrades by UID
    slots: frozenset[NodeName] | None  # the nodes in flight of all; None if that is not known

    def includes(self, task: Task) -> bool:
        """Report whether no rollout may still act on a task's node: its own is over or gone, no other has a slot."""
        owner = self.known.get(task.spec.upgrade_ref.uid)
        return (owner is None or not owner.active) and self.slots is not None and task.name not in self.slots

    def is_empty(self, task: Task) -> bool:
        """Report whether a task says nothing: its run never began, and no rollout that exists has had one here."""
        rollouts = {task.spec.upgrade_ref.uid, *(run.upgrade_uid for run in task.spec.history)}
        return _never_began(task) and rollouts.isdisjoint(self.known)

    def is_counted(self, task: Task) -> bool:
        """Report whether a task records a failure of a rollout that can be retried."""
        return records_failure(task) and task.spec.upgrade_ref.uid in self.known

    async def delete(self, name: NodeName, agents: frozenset[NodeName]) -> None:
        """Delete a task after another look at it and at its Node."""
        task = await self._seen_again(name)
        if task is None or self.is_counted(task):
            return
        if not self.is_empty(task) or name in agents:
            with contextlib.suppress(NotFoundError):
                await self.kube.get(NODES, name)
                return
        with contextlib.suppress(ConflictError, RejectedError):  # the next sweep tries again
            await self.kube.delete(TASKS, name, uid=task.uid, resource_version=task.resource_version)

    async def release(self, name: NodeName) -> None:
        """Release a task that has no agent; the agent of a late write finds it released."""
        task = await self._seen_again(name)
        again = ConflictError, NotFoundError, RejectedError, MalformedObjectError  # the next sweep tries again
        with contextlib.suppress(*again):
            node = view_node(await self.kube.get(NODES, name))
            if task is not None and _is_over(task, node):
                released = {"spec": {"action": TaskAction.RELEASE.value}}
                await self.kube.merge(TASKS, name, released, resource_version=task.resource_version)

    async def mark(self, name: NodeName) -> None:
        """Show that the run of a task, which stays for its history, does not wait any more."""
        task = await self._seen_again(name)
        if task is None or not _is_pending(task):
            return
        message = f"NodeUpgrade {task.spec.upgrade_ref.name} is gone, and its run on this node never began"
        status = TaskStatus(observed_generation=task.generation, phase=TaskPhase.RELEASED, message=message)
        with contextlib.suppress(ConflictError, NotFoundError, RejectedError):  # the next sweep tries again
            await self.kube.replace_status(TASKS, name, to_json(status), resource_version=task.resource_version)

    async def _seen_again(self, name: NodeName) -> Task | None:
        """Return a task as it is now; None if it is not one of these any more."""
        with contextlib.suppress(NotFoundError, MalformedObjectError):
            task = parse_task(await self.kube.get(TASKS, name))
            return task if self.includes(task) else None
        return None


def _never_began(task: Task) -> bool:
    """Report whether a run waits for its turn, or was released before anything was handed over."""
    return not task.open and task.verdict is None and task.untouched


def _is_pending(task: Task) -> bool:
    """Report whether a run that never began is shown as if it waited; what an earlier one reported stays."""
    return (
        _never_began(task)
        and task.status.run_id in {"", task.spec.run_id}
        and task.status.phase is not TaskPhase.RELEASED
    )


def _is_over(task: Task, node: NodeView) -> bool:
    """Report whether an open run of a rollout that is gone is over.

    Nothing was begun, or a person has uncordoned the node, as the event about a cordon left behind requests.
    """
    ours = node.unschedulable and node.cordoned_by == task.spec.upgrade_ref.uid
    return task.open and (task.untouched or (task.spec.cordon.by_us and not ours))
