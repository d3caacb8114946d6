"""Tests for how long it is kept what pods object to."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.controllers.rollout_memory import PODS_RECENT, RECENT_PER_NODE, Objection, RolloutMemory
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import upgrade_object

NOW, NODE = datetime(2026, 1, 1, tzinfo=UTC), NodeName("node-0")
SLOT = {"node": NODE, "uid": "n", "wave": "", "run": "u-20260101000000", "since": "2026-01-01T00:00:00Z"}


def fleet(status: Json | None = None, *, generation: int = 1, nodes: int = 1, **labels: str) -> FleetSnapshot:
    body = upgrade_object("r")
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": generation}
    upgrade, views = parse_upgrade({**body, "status": status or {}}), []
    for number in range(nodes):
        node = node_object(f"node-{number}", "v1.30.14")
        node["metadata"] |= {"uid": "n", "resourceVersion": "1", "labels": labels}
        views.append(view_node(node))
    return FleetSnapshot(
        upgrade=upgrade, server=KubeletVersion.parse("v1.33.13"), nodes={view.name: view for view in views}
    )


def memory(reason: Reason = Reason.NODE_AFFINITY_NOT_MET, nodes: int = 1) -> RolloutMemory:
    """What pods object to on nodes, each read a second after the one before."""
    found = Finding(reason=reason, detail="a pod objects")
    known = Objection(finding=found, read_at=NOW, generation=1, uid="n", labels={}, taints=())
    seconds = {NodeName(f"node-{number}"): timedelta(seconds=number) for number in range(nodes)}
    return RolloutMemory(objections={name: replace(known, read_at=NOW + late) for name, late in seconds.items()})


def test_it_is_kept_until_pods_are_to_be_read_again() -> None:
    kept, late = memory(), NOW + PODS_RECENT
    assert list(kept.recalled(fleet(), late - timedelta(seconds=1)).objections) == [NODE]
    assert kept.recalled(fleet(), late).objections == {}


def test_it_is_kept_until_the_others_are_read() -> None:
    kept = memory()
    kept.reading_on = True
    assert list(kept.recalled(fleet(), NOW + 2 * PODS_RECENT).objections) == [NODE]


def test_those_of_many_nodes_are_kept_for_longer() -> None:
    nodes = 10 * round(PODS_RECENT / RECENT_PER_NODE)
    kept = memory(nodes=nodes)
    assert len(kept.recalled(fleet(nodes=nodes), NOW + 9 * PODS_RECENT).objections) == nodes
    late = NOW + timedelta(seconds=3) + 10 * PODS_RECENT
    assert len(kept.recalled(fleet(nodes=nodes), late).objections) == nodes - 4


def test_it_is_forgotten_where_pods_may_not_object_any_more() -> None:
    assert memory().recalled(fleet({"inFlight": [SLOT]}), NOW).objections == {}
    assert memory().recalled(fleet(generation=2), NOW).objections == {}
    assert memory().recalled(fleet(pool="old"), NOW).objections == {}
    assert memory().recalled(fleet(nodes=0), NOW).objections == {}
    anew = fleet()
    anew = replace(anew, nodes={NODE: replace(anew.nodes[NODE], uid="m")})
    assert memory().recalled(anew, NOW).objections == {}


def test_the_time_for_which_pods_may_hold_a_node_ends_when_it_is_over() -> None:
    held, upgrade = memory(Reason.HELD_BY_POD), fleet()
    assert upgrade.upgrade.spec is not None
    none = replace(upgrade.upgrade.spec.timeouts, pod_hold=timedelta())
    over = replace(upgrade, upgrade=replace(upgrade.upgrade, spec=replace(upgrade.upgrade.spec, timeouts=none)))
    assert list(held.recalled(upgrade, NOW).objections) == [NODE]
    assert held.recalled(over, NOW).objections == {}
