"""Clients notice nothing of an upgrade with the readiness guard; without it they do, or the test proves nothing.

The tests share a node with pods that have probes of every kind, and alternate between two versions; tests that take
minutes more, or a long window, are run by hand (``-m slow``).
"""

import pytest

from e2e import clients
from e2e.clients import Swap
from e2e.cluster import Cluster, conditions
from e2e.conftest import MakeLab
from e2e.crash import POD, Crash
from e2e.lab.cluster import deploy
from e2e.lab.nodes import asnode
from e2e.lab.process import PATIENCE

pytestmark = pytest.mark.long

OLD, NEW = "1.30.14", "1.33.13"
PODS = 12
"""One of each kind; by hand also 60 (docs/measured/clients-disturbed.jsonl)."""
SLOWEST = 10
"""Seconds between two probes of the slowest pods; by hand with 30 as well."""

TOLD_WITHIN = 2.0 * PATIENCE
"""Seconds from when the kubelet has detected that a container ended until the API server shows it."""


@pytest.fixture(scope="module")
def cluster(make_lab: MakeLab) -> Cluster:
    return clients.with_clients(make_lab("e2e-guard", OLD), PODS, slowest=SLOWEST)


def guarded_nodes(cluster: Cluster) -> dict[str, str]:
    """Return the guard's parameters: times by node."""
    parameters = cluster.lab.api.get("configmaps", "nodeupgrade-readiness-guard", namespace=deploy.NAMESPACE)
    found: dict[str, str] = parameters.get("data", {})
    return found


def nobody_noticed(
    cluster: Cluster, found: Swap, phase: str = "Succeeded", *, but: frozenset[str] = frozenset()
) -> None:
    """Assert that no client noticed anything, and that the guard was seen in force and is gone."""
    seen, status = found.seen, found.status
    assert status["phase"] == phase, status
    assert status["guard"]["state"] == "InForce", status["guard"]
    assert set(clients.served(seen.pods_unready)) <= but
    assert seen.endpoints == PODS
    assert seen.endpoints_lost == ()
    assert (seen.failed, seen.nodes_not_ready) == (0, 0.0), seen
    assert seen.requests > PODS
    assert status["containers"]["readinessFlaps"] == []
    assert guarded_nodes(cluster) == {}


def test_control_without_the_guard_endpoints_are_lost_and_named(cluster: Cluster) -> None:
    found = clients.swap(cluster, NEW, "Off", pods=PODS)

    assert conditions(found.upgrade)["Succeeded"]["status"] == "True", found.upgrade["status"]
    assert found.seen.endpoints_lost
    flaps = found.status["containers"]["readinessFlaps"]
    assert len(flaps) == min(20, len(found.seen.pods_unready))
    assert set(flaps) <= set(found.seen.pods_unready)
    assert any(pod in found.verdict["message"] for pod in flaps), found.verdict
    assert guarded_nodes(cluster) == {}


def test_with_the_guard_nobody_notices(cluster: Cluster) -> None:
    nobody_noticed(cluster, clients.swap(cluster, OLD, "Auto", pods=PODS))


@pytest.mark.slow
def test_nor_the_other_way_and_a_container_that_crashes_meanwhile_is_reported_at_once(cluster: Cluster) -> None:
    verify = {"settle": "30s", "readinessGuard": "Require"}
    with Crash(cluster, after=8) as crash:
        found = clients.swap(cluster, NEW, "Require", pods=PODS, verify=verify)

    assert asnode.DENIED in crash.objection
    print(f"seen by the kubelet after {crash.seen_after} s, by everybody {crash.unready_after} s later")
    assert 0 < crash.unready_after <= TOLD_WITHIN
    nobody_noticed(cluster, found, but=frozenset({POD}))
