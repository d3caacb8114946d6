"""The sweep removes what is left behind: tasks, orphaned cordons, conditions on Nodes, entries of the guard, agents.

A cordon is orphaned when its NodeUpgrade was abandoned or deleted without its finalizer; an entry is left behind when
its Node was deleted during the run.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, AgentPodView, PodRole
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, ConflictError, Event, NotFoundError, RejectedError
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.actions import NodeAction, RestoreCordon, Wait
from nodeupgrade.fleet.agents.manifests import view_agent
from nodeupgrade.fleet.agents.stale_agents import remove_stale_agents
from nodeupgrade.fleet.caches.fleet_source import FleetSource
from nodeupgrade.fleet.caches.upgrade_cache import nodes_in_flight
from nodeupgrade.fleet.controllers.leftover_tasks import clean_leftover_tasks
from nodeupgrade.fleet.cordons.cordons import cordon_patch, uncordon, withdraw
from nodeupgrade.fleet.cordons.orphaned import is_orphaned, restore_or_wait
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.guard.requirement import unused_keys


class Sweep:
    """Examines all Nodes and tasks, whether or not they belong to a rollout."""

    def __init__(self, kube: TypedKube, fleet: FleetSource, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._fleet = fleet
        self._agents = PODS.within(namespace)
        self._reported: set[str] = set()

    async def run(self) -> tuple[NodeAction, ...]:
        """Remove tasks, cordons, entries of the guard and agents; return what was decided about cordons.

        Raises:
            NodeUpgradeError: One of these could not be done; the others were.
        """
        decided, problem = tuple[NodeAction, ...](), None
        parts: tuple[Callable[[], Awaitable[tuple[NodeAction, ...] | None]], ...] = (
            lambda: clean_leftover_tasks(self._kube, self._fleet, self._namespace),
            self._clean_nodes,
            self._remove_guard_entries,
            lambda: remove_stale_agents(self._kube, self._namespace, self._kube.utcnow()),
        )
        for part in parts:
            try:
                decided += await part() or ()
            except NodeUpgradeError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return decided

    async def _clean_nodes(self) -> tuple[NodeAction, ...]:
        """Remove the orphaned cordons that can be removed, and return what was decided.

        Nodes are read before NodeUpgrades: the owner of a cordon is then in the list, unless it is gone.
        """
        nodes = await self._fleet.get_nodes()
        known = [node for _, node in sorted(nodes.items())]
        suspects = [node for node in known if node.unschedulable and node.cordoned_by]
        marked = [node for node in known if node.stale_mark]
        announced = [node for node in known if node.announced and not node.cordoned_by]
        if not suspects and not marked and not announced:
            return ()
        listed = (await self._fleet.list_upgrades()).values()
        active = frozenset(each.uid for each in listed if each.active)
        await self._withdraw(announced, nodes_in_flight(listed))
        for node in marked:
            if node.stale_mark not in active:
                await self._unmark(node)
        return tuple([await self._examine(node) for node in suspects if is_orphaned(node, active)])

    async def _remove_guard_entries(self) -> None:
        """Remove the guard's entries that no run needs.

        The ConfigMap is read first, and written as it was read: an entry that is made meanwhile stays.

        Raises:
            RejectedError: The API server refuses the write.
            UnavailableError: Something cannot be read at the moment.
        """
        guard = GuardWriter(self._kube, self._namespace)
        parameters = await guard.read()
        if parameters is None or not parameters.data:
            return
        slots = nodes_in_flight((await self._fleet.list_upgrades()).values())
        if slots is None or not unused_keys(parameters, slots, (), self._kube.utcnow()):
            return
        opened = await self._fleet.get_open_tasks(int(parameters.resource_version))
        if keys := unused_keys(parameters, slots, opened, self._kube.utcnow()):
            with contextlib.suppress(ConflictError, NotFoundError):
                await guard.write(parameters, dict.fromkeys(keys))

    async def _examine(self, node: NodeView) -> NodeAction:
        task, problem = await self._task(node)
        pods = await self._pods(node)
        agent = next((pod for pod in pods if pod.role is PodRole.AGENT), None)
        decision: NodeAction = restore_or_wait(node, task, agent, problem)
        if isinstance(decision, RestoreCordon):
            decision = await self._restore(decision, pods)
        await self._report(node, decision)
        return decision

    async def _restore(self, decision: RestoreCordon, pods: Iterable[AgentPodView]) -> NodeAction:
        node = decision.view
        try:
            for pod in pods:
                await self._kube.delete(self._agents, pod.name, uid=pod.uid)
            await uncordon(self._kube, node)
        except (ConflictError, NotFoundError):
            return Wait(node=node.name, reason=Reason.PROGRESSING, message=f"node {node.name} has changed meanwhile")
        except RejectedError as error:
            return Wait(node=node.name, reason=Reason.WRITE_REFUSED, message=f"node {node.name}: {error}")
        return decision

    async def _withdraw(self, announced: Iterable[NodeView], slots: frozenset[NodeName] | None) -> None:
        """Remove our condition from nodes that have lost our cordon and are not in flight any more."""
        for node in announced:
            if slots is not None and node.name not in slots:
                with contextlib.suppress(ConflictError, NotFoundError, RejectedError):  # the next sweep tries again
                    await withdraw(self._kube, node)

    async def _unmark(self, node: NodeView) -> None:
        """Remove the marks of a cordon that somebody has removed: a later cordon is theirs."""
        patch = {"metadata": cordon_patch(None)["metadata"]}
        with contextlib.suppress(ConflictError, NotFoundError, RejectedError):  # the next sweep tries again
            await self._kube.merge(NODES, node.name, patch, resource_version=node.resource_version)

    async def _report(self, node: NodeView, decision: NodeAction) -> None:
        """Emit each event until it is recorded: the sweep runs every half minute, and reports in no other way."""
        if decision.reason is Reason.PROGRESSING or decision.message in self._reported:
            return
        warning = not isinstance(decision, RestoreCordon)
        about = NODES.as_regarding(node.name, node.uid)
        event = Event(regarding=about, reason=decision.reason, message=decision.message, warning=warning)
        if await self._kube.emit_event(event):
            self._reported.add(decision.message)
        if not warning:
            self._reported.clear()

    async def _task(self, node: NodeView) -> tuple[Task | None, str]:
        """Return the task as it is now, None if there is none, and why it cannot be read, if so."""
        try:
            return parse_task(await self._kube.get(TASKS, node.name)), ""
        except NotFoundError:
            return None, ""
        except MalformedObjectError as error:
            return None, f"its NodeUpgradeTask cannot be read ({error})"

    async def _pods(self, node: NodeView) -> list[AgentPodView]:
        listed = await self._kube.list(self._agents, labels=AGENT_LABELS)
        return [pod for pod in map(view_agent, listed) if pod.node == node.name]
