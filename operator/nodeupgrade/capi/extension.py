"""Answers the hooks: reads what they need from the API, and writes what joins a Node to its NodeUpgrade."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias, TypeVar

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.object import RETRY_ANNOTATION, Upgrade, parse_spec
from nodeupgrade.capi import answers, requests
from nodeupgrade.capi.answers import Done, Failed, Waiting
from nodeupgrade.capi.machines import MACHINES, Machine, view_machine
from nodeupgrade.capi.objections import CONTROL_PLANE, objection_of, objection_to
from nodeupgrade.capi.progress import Join, next_step
from nodeupgrade.capi.requests import DEPLOYMENT_LABEL, Change, Hook, Update
from nodeupgrade.capi.rollouts import NODE_LABEL, Rollouts, RolloutsError, name_of, object_of
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ConflictError, KubeApi, NotFoundError
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.text import parse_json

FIELD_MANAGER = "nodeupgrade-capi"
AT_ONCE = 16
"""Nodes that are read at a time."""
SECONDS = answers.TIMEOUT_SECONDS - 1

T = TypeVar("T")
Outcome: TypeAlias = Done | Waiting | Failed


class Extension:
    """The extension, for the cluster whose nodes it updates.

    Args:
        kube: That cluster.
        machines: The cluster that has its Machines, which may be the same.
        rollouts: Reads what administrators say about rollouts.
        clock: Wall-clock time, UTC.
    """

    def __init__(
        self, kube: KubeApi, machines: KubeApi, rollouts: Callable[[], Rollouts], clock: Callable[[], datetime]
    ) -> None:
        self._kube, self._machines, self._rollouts, self._clock = kube, machines, rollouts, clock

    async def answer(self, hook: Hook, body: bytes) -> Json:
        """Answer a request; whatever prevents that is a Failure, which Cluster API repeats."""
        if hook is Hook.DISCOVERY:
            return answers.discovery()
        try:
            data = parse_json(body)
            async with asyncio.timeout(SECONDS):
                if hook is Hook.UPDATE_MACHINE:
                    return answers.updating(await self._update(requests.update_machine(data)))
                of_set = hook is Hook.CAN_UPDATE_MACHINE_SET
                change = requests.can_update_machine_set(data) if of_set else requests.can_update_machine(data)
                objection = objection_to(change) or await self._objection(change)
        except TimeoutError:
            return answers.failure(hook, "the API server did not answer in time")
        except (NodeUpgradeError, ValueError, RecursionError) as error:
            return answers.failure(hook, str(error))
        if objection is not None:
            return answers.cannot_update(hook, objection)
        return answers.can_update(hook, str(change.desired))

    async def _objection(self, change: Change) -> str | None:
        """Return what the cluster shows against a change of the version."""
        version, rollouts = str(change.desired), self._rollouts()
        if rollouts.artifacts and version not in rollouts.artifacts:
            return f"the file of rollouts lists no kubelet {version}"
        labels = {DEPLOYMENT_LABEL: str(change.deployment)}
        bodies = await self._machines.list(MACHINES.within(change.namespace), labels=labels)
        limit = asyncio.Semaphore(AT_ONCE)

        async def node_of(machine: Machine) -> NodeView | str | None:
            async with limit:
                return None if machine.node is None else await self._node(machine, machine.node)

        machines = [view_machine(body) for body in bodies]
        nodes = await asyncio.gather(*map(node_of, machines))
        missing = next((each for each in nodes if isinstance(each, str)), None)
        # One that is missing is no reason to replace the others: another cluster has none of them.
        if missing is not None and not any(isinstance(each, NodeView) for each in nodes):
            return missing
        # Cluster API updates no Machine that is being deleted.
        pairs = zip(machines, nodes, strict=True)
        views = [node for machine, node in pairs if isinstance(node, NodeView) and not machine.deleting]
        if (wanted := rollouts.spec_of("any", version)) is None:
            raise RolloutsError("the file of rollouts lists no kubelet at all; list them in ConfigMap nodeupgrade-capi")
        server = KubeletVersion.parse(await self._kube.server_version())
        return objection_of(views, parse_spec(wanted), server, self._clock())

    async def _update(self, update: Update) -> Outcome:
        body = await found(self._machines.get(MACHINES.within(update.namespace), update.machine))
        if body is None:
            return Failed(f"there is no Machine {update.namespace}/{update.machine}")
        machine = view_machine(body)
        if not machine.updating or machine.version is None or machine.version != update.version:
            return Failed(f"{machine} says nothing of an update in place to {update.version}")
        if machine.control_plane or machine.deployment is None:
            return Failed(CONTROL_PLANE if machine.control_plane else f"{machine} is of no MachineDeployment")
        if machine.node is None:
            return Waiting(f"{machine} has no Node yet")
        if isinstance(node := await self._node(machine, machine.node), str):
            return Failed(node)
        return await self._advance(machine, machine.deployment, machine.version, node)

    async def _advance(self, machine: Machine, deployment: str, version: str, node: NodeView) -> Outcome:
        """Find out how far a Node is, and let it join its NodeUpgrade if it has not."""
        name = name_of(machine.namespace, deployment, version)
        upgrade, task = await self._upgrade(name), await self._task(node)
        step = next_step(node, task, upgrade, name, version)
        if not isinstance(step, Join):
            return step
        owner = f"{machine.namespace}/{deployment}"
        try:
            return await self._join(step, node, name, version, owner=owner, upgrade=upgrade)
        except ConflictError as conflict:
            return Waiting(str(conflict))

    async def _join(
        self, step: Join, node: NodeView, name: str, version: str, *, owner: str, upgrade: Upgrade | None
    ) -> Waiting | Failed:
        """Label the Node first: a rollout without nodes would stall."""
        if (spec := self._rollouts().spec_of(name, version)) is None and step.creates:
            return Failed(f"the file of rollouts lists no kubelet {version}; add it")
        if node.labels.get(NODE_LABEL) != name:
            await self._kube.merge(
                NODES,
                node.name,
                {"metadata": {"labels": {NODE_LABEL: name}}},
                resource_version=node.resource_version,
                field_manager=FIELD_MANAGER,
            )
        if step.creates and spec is not None:
            await self._kube.create(UPGRADES, object_of(name, owner, spec))
        elif step.retry is not None and upgrade is not None:
            patch = {"metadata": {"annotations": {RETRY_ANNOTATION: step.retry}}}
            await self._kube.merge(UPGRADES, name, patch, resource_version=upgrade.resource_version)
        return Waiting(f"NodeUpgrade {name}: node {node.name} joins")

    async def _node(self, machine: Machine, name: str) -> NodeView | str:
        """Return the Node of a Machine, or why it cannot be it."""
        body = await found(self._kube.get(NODES, name))
        if body is None or not machine.is_node(body):
            return f"Node {name} of {machine} is not in this cluster; this extension updates the nodes of its own"
        try:
            return view_node(body)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedObjectError(f"Node {name}", repr(error)) from error

    async def _upgrade(self, name: str) -> Upgrade | None:
        body = await found(self._kube.get(UPGRADES, name))
        return None if body is None else read_upgrade(body)

    async def _task(self, node: NodeView) -> Task | None:
        body = await found(self._kube.get(TASKS, node.name))
        return None if body is None else parse_task(body)


async def found(read: Awaitable[T]) -> T | None:
    """Return what was read; None if it does not exist."""
    try:
        return await read
    except NotFoundError:
        return None
