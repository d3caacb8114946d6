"""The sweep removes what is left behind: orphaned cordons, our conditions on Nodes, and entries of the readiness guard.

A cordon is orphaned when its NodeUpgrade was abandoned or deleted without its finalizer; an entry is left behind when
its Node was deleted during the run.
"""

import contextlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import chain

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.agent_pods import AgentPodView, PodRole
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.actions import NodeAction, RestoreCordon, Wait
from nodeupgrade.domain.rollout.guard import left_over
from nodeupgrade.domain.rollout.orphaned_cordons import is_orphaned, restore_or_wait
from nodeupgrade.engine.rollout.agent_pod import AGENT_LABELS, view_agent
from nodeupgrade.engine.rollout.cordons import cordon_patch, uncordon, withdraw
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.rollout.upgrade_cache import KnownUpgrade
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import (
    NODES,
    PODS,
    TASKS,
    ConflictError,
    Event,
    KubeApi,
    NotFoundError,
    RejectedError,
)


class Sweep:
    """Examines all Nodes, whether or not they belong to a rollout."""

    def __init__(self, kube: TypedKube, fleet: FleetSource, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._fleet = fleet
        self._agents = PODS.within(namespace)
        self._reported: set[str] = set()

    async def make(self) -> tuple[NodeAction, ...]:
        """Remove the orphaned cordons that can be removed, and return what was decided.

        Nodes are read before NodeUpgrades: the owner of a cordon is then in the list, unless it is gone.
        """
        nodes = await self._fleet.nodes_known()
        known = [node for _, node in sorted(nodes.items())]
        suspects = [node for node in known if node.unschedulable and node.cordoned_by]
        marked = [node for node in known if node.stale_mark]
        announced = [node for node in known if node.announced and not node.cordoned_by]
        if not suspects and not marked and not announced:
            return ()
        listed = (await self._fleet.upgrades_listed()).values()
        active = frozenset(each.uid for each in listed if each.active)
        await self._withdraw(announced, _slots(listed))
        for node in marked:
            if node.stale_mark not in active:
                await self._unmark(node)
        return tuple([await self._examine(node) for node in suspects if is_orphaned(node, active)])

    async def lower_guards(self) -> tuple[str, ...]:
        """Remove the guard's entries that no run needs, and return their keys.

        The ConfigMap is read first, and written as it was read: an entry that is made meanwhile stays.

        Raises:
            RejectedError: The API server refuses the write.
            UnavailableError: Something cannot be read at the moment.
        """
        guard = GuardWriter(self._kube, self._namespace)
        parameters = await guard.read()
        if parameters is None or not parameters.data:
            return ()
        slots = _slots((await self._fleet.upgrades_listed()).values())
        if slots is None or not left_over(parameters, slots, (), self._kube.utcnow()):
            return ()
        opened = await self._fleet.tasks_opened(int(parameters.resource_version))
        if keys := left_over(parameters, slots, opened, self._kube.utcnow()):
            try:
                await guard.write(parameters, dict.fromkeys(keys))
            except (ConflictError, NotFoundError):
                return ()
        return keys

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
                with contextlib.suppress(ConflictError, NotFoundError):  # the next sweep tries again
                    await withdraw(self._kube, node)

    async def _unmark(self, node: NodeView) -> None:
        """Remove the marks of a cordon that somebody has removed: a later cordon is theirs."""
        patch = {"metadata": cordon_patch(None)["metadata"]}
        with contextlib.suppress(ConflictError, NotFoundError, RejectedError):  # the next sweep tries again
            await self._kube.merge(NODES, node.name, patch, resource_version=node.resource_version)

    async def _report(self, node: NodeView, decision: NodeAction) -> None:
        """Emit an event, each one until it is recorded: the sweep runs every half minute, and tells in no other way."""
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


def _slots(listed: Iterable[KnownUpgrade]) -> frozenset[NodeName] | None:
    """Return the nodes in flight; None if that is not known of one NodeUpgrade, which cannot be parsed."""
    known = [each.upgrade for each in listed]
    slots = (upgrade.status.in_flight for upgrade in known if upgrade is not None)
    return None if None in known else frozenset(chain.from_iterable(slots))


# Deletes agent pods that serve no run: for example one that a former leader created after the run was over.

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
        removed.append(pod)
    return tuple(removed)


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
