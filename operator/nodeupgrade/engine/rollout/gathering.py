"""What a plan is made from, read from the API: for the operator, and for whoever only looks at what it would do."""

from collections.abc import Mapping
from dataclasses import replace

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.reading import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.backoff import Setbacks
from nodeupgrade.domain.rollout.inflight.guard_lifecycle import needs_parameters
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.guard_parameters import read_parameters
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import UPGRADES, KubeApi


async def gather(
    kube: KubeApi,
    upgrade: Upgrade,
    source: FleetSource,
    *,
    namespace: str,
    operator_node: NodeName | None,
    setbacks: Setbacks | None = None,
    agents_lost: Mapping[NodeName, tuple[str, int]] | None = None,
) -> FleetSnapshot:
    """Read everything a plan depends on, but for pods that run on the nodes.

    An object that cannot be read costs its own node only, or counts as a rollout that may touch nodes.

    Args:
        kube: The API server.
        upgrade: As it was read before anything else: its resourceVersion guards the status write, so anything that
            was true when the slots were counted is at least as new as that.
        source: Where Nodes, tasks and agent pods are read.
        namespace: Where the operator is installed.
        operator_node: The node the operator runs on.
        setbacks: What the API server has refused lately.
        agents_lost: How many agents of a run in a row did not live long.
    """
    objects = await source.read(upgrade)
    active, rivals = await _others(kube, upgrade)
    fleet = FleetSnapshot(
        upgrade=upgrade,
        server=KubeletVersion.parse(await kube.server_version()),
        nodes=objects.nodes,
        tasks=objects.tasks,
        agents=objects.agents,
        unreadable=objects.unreadable,
        active_upgrades=active,
        rivals=rivals,
        operator_node=operator_node,
        setbacks=setbacks or {},
        agents_lost=agents_lost or {},
    )
    return replace(fleet, guard=await read_parameters(kube, namespace)) if needs_parameters(fleet) else fleet


def read_upgrade(body: Json) -> Upgrade | None:
    """Read a NodeUpgrade; None if this version cannot."""
    try:
        return parse_upgrade(body)
    except MalformedObjectError:
        return None


async def _others(kube: KubeApi, upgrade: Upgrade) -> tuple[frozenset[str], tuple[Upgrade, ...]]:
    """Return the UIDs of all NodeUpgrades that may still touch nodes, and the others of them that can be read."""
    active, rivals = set(), []
    for body in await kube.list(UPGRADES):
        uid = body["metadata"]["uid"]
        other = upgrade if uid == upgrade.uid else read_upgrade(body)
        if other is None or other.active:
            active.add(uid)  # one that cannot be read, to be on the safe side
        if other is not None and other.active and uid != upgrade.uid:
            rivals.append(other)
    return frozenset(active), tuple(rivals)
