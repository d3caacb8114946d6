"""Tests how long the pods of nodes that are not admitted are kept."""

from datetime import UTC, datetime, timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.fleet.controllers.rollout_memory import PODS_RECENT, RolloutMemory
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion
from tests.doubles.kube_fleet import pod_object
from tests.scenario.rollout.harness import upgrade_object

NOW, NODE = datetime(2026, 1, 1, tzinfo=UTC), NodeName("node-0")
SLOT = {"node": NODE, "uid": "n", "wave": "", "run": "u-20260101000000", "since": "2026-01-01T00:00:00Z"}


def fleet(*pods: Pod, status: Json | None = None) -> FleetSnapshot:
    body = upgrade_object("r")
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}
    upgrade = parse_upgrade({**body, "status": status or {}})
    return FleetSnapshot(upgrade=upgrade, server=KubeletVersion.parse("v1.33.13"), nodes={}, pods={NODE: pods})


def pod(name: str) -> Pod:
    return parse_pod({**pod_object(name, NODE), "metadata": {"name": name, "namespace": "default", "uid": name}})


def test_pods_are_kept_as_long_as_they_are_recent_and_then_replaced() -> None:
    memory, old, late = RolloutMemory(), fleet(pod("a")), NOW + PODS_RECENT
    memory.remember_pods(old, NOW)
    assert memory.recent_pods(old, late - timedelta(seconds=1)) == old.pods
    memory.remember_pods(old, late - timedelta(seconds=1))
    assert memory.recent_pods(old, late) == {}
    memory.remember_pods(new := fleet(pod("b")), late)
    assert memory.recent_pods(new, late + timedelta(seconds=59)) == new.pods


def test_pods_of_a_node_in_flight_are_not_recalled() -> None:
    memory = RolloutMemory()
    memory.remember_pods(fleet(pod("a")), NOW)
    assert memory.recent_pods(fleet(status={"inFlight": [SLOT]}), NOW) == {}
