"""Gathers the planner's input from the API, for the operator and for commands that only show what it would do."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView, view_node
from nodeupgrade.domain.pods import Pod, parse_pod
from nodeupgrade.domain.rollout.allowed import Allowed
from nodeupgrade.domain.rollout.guard_lifecycle import needs_parameters
from nodeupgrade.domain.rollout.health import HealthReading
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.guard_parameters import read_parameters
from nodeupgrade.engine.rollout.reader import FleetSource, read_api_servers
from nodeupgrade.engine.rollout.upgrade_cache import KnownUpgrade
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import KubeApi, NotFoundError

READS_AT_ONCE = 64
"""Nodes that are looked at at the same time; each look mostly waits for the API server's index to come up to date."""


async def gather(
    kube: KubeApi,
    upgrade: Upgrade,
    source: FleetSource,
    *,
    namespace: str,
    operator_node: NodeName | None,
    health: Mapping[str, HealthReading] | None = None,
    allowed: Allowed | None = None,
) -> FleetSnapshot:
    """Read everything a plan depends on, except the pods on the nodes and the Jobs of hooks.

    An unreadable Node or task excludes only its own node; an unreadable NodeUpgrade counts as one that is active.

    Args:
        kube: The API server.
        upgrade: The NodeUpgrade, read before anything else: its resourceVersion is the precondition of the status
            write, so everything that the slots are counted from is at least as new.
        source: Provides Nodes, tasks, agent pods and the other NodeUpgrades.
        namespace: The operator's namespace.
        operator_node: The node that the operator runs on, if known.
        health: What is known of the rollout's health checks, by name.
        allowed: What the operator's configuration allows; None if it is not known.
    """
    objects, version, api_servers = await asyncio.gather(
        source.read(upgrade), kube.server_version(), read_api_servers(kube)
    )
    active, rivals = _others(upgrade, objects.upgrades)
    fleet = FleetSnapshot(
        upgrade=upgrade,
        server=KubeletVersion.parse(version),
        nodes=objects.nodes,
        tasks=objects.tasks,
        agents=objects.agents,
        artifacts=objects.artifacts,
        unreadable=objects.unreadable,
        active_upgrades=active,
        rivals=rivals,
        operator_node=operator_node,
        api_servers=api_servers,
        health=health or {},
        allowed=allowed,
    )
    return replace(fleet, guard=await read_parameters(kube, namespace)) if needs_parameters(fleet) else fleet


async def look_at(
    kube: TypedKube, fleet: FleetSnapshot, names: Iterable[NodeName], limit: asyncio.Semaphore
) -> FleetSnapshot:
    """Add the pods of nodes; of those whose run is over, also the Node as it is now.

    A verdict must not rest on a version that a watch has not told of yet. ``limit`` bounds how many nodes are looked at
    at the same time; whoever looks at nodes one by one shares it.
    """

    async def present(name: NodeName) -> NodeView | None:
        if (task := fleet.own_task(name)) is None or not task.reported.phase.terminal:
            return None
        with contextlib.suppress(NotFoundError):
            return view_node(await kube.get_node(name))
        return None

    async def seen(name: NodeName) -> tuple[tuple[Pod, ...], NodeView | None]:
        async with limit:
            return tuple(map(parse_pod, await kube.list_pods_on_node(name))), await present(name)

    names = tuple(names)
    looks = [asyncio.ensure_future(seen(name)) for name in names]
    try:
        found = dict(zip(names, await asyncio.gather(*looks), strict=True))
    finally:
        for look in looks:  # nobody waits for the others if one failed
            look.cancel()
    pods = {**fleet.pods, **{name: pods for name, (pods, _) in found.items()}}
    fresh = {name: node for name, (_, node) in found.items() if node is not None}
    return replace(fleet, pods=pods, nodes={**fleet.nodes, **fresh} if fresh else fleet.nodes)


def _others(upgrade: Upgrade, known: Mapping[str, KnownUpgrade]) -> tuple[frozenset[str], tuple[Upgrade, ...]]:
    """Return the UIDs of all active NodeUpgrades, and those other than ``upgrade`` that can be parsed."""
    others = [each for each in known.values() if each.uid != upgrade.uid and each.active]
    own = {upgrade.uid} if upgrade.active else set()
    return frozenset({each.uid for each in others} | own), tuple(o.upgrade for o in others if o.upgrade is not None)
