"""What a plan is made from, read from the API: for the operator, and for whoever only looks at what it would do."""

from collections.abc import Mapping
from dataclasses import replace

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.backoff import Setbacks
from nodeupgrade.domain.rollout.inflight.guard_lifecycle import needs_parameters
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.guard_parameters import read_parameters
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.rollout.upgrade_cache import KnownUpgrade
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import KubeApi


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
        source: Where Nodes, tasks, agent pods and the other NodeUpgrades are read.
        namespace: Where the operator is installed.
        operator_node: The node the operator runs on.
        setbacks: What the API server has refused lately.
        agents_lost: How many agents of a run in a row did not live long.
    """
    objects = await source.read(upgrade)
    active, rivals = _others(upgrade, objects.upgrades)
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


def _others(upgrade: Upgrade, known: Mapping[str, KnownUpgrade]) -> tuple[frozenset[str], tuple[Upgrade, ...]]:
    """Return the UIDs of all NodeUpgrades that may still touch nodes, and the others of them that can be read."""
    others = [each for each in known.values() if each.uid != upgrade.uid and each.active]
    own = {upgrade.uid} if upgrade.active else set()
    return frozenset({each.uid for each in others} | own), tuple(o.upgrade for o in others if o.upgrade is not None)
