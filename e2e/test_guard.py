"""Clients notice nothing of an upgrade with the readiness guard; without it they do, or the test proves nothing.

And `action: Plan` predicts on a real node what probes and Services mean for an upgrade. The tests share a node with
pods that have probes of every kind, and alternate between two versions; tests that take minutes more, or a long window,
are run by hand (``-m slow``).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import clients
from e2e.clients import Swap
from e2e.cluster import Cluster, Object, conditions
from e2e.conftest import MakeLab
from e2e.crash import POD, Crash
from e2e.lab.cluster import deploy
from e2e.lab.nodes import asnode
from e2e.lab.process import PATIENCE, wait_until
from e2e.lab.workloads import probed
from e2e.looks import look
from e2e.preflight.kinds.node import without_guard

pytestmark = pytest.mark.long

OLD, NEW = "1.30.14", "1.33.13"
PODS = 12
"""One of each kind; by hand also 60 (docs/measured/clients-disturbed.jsonl)."""
SLOWEST = 10
"""Seconds between two probes of the slowest pods; by hand with 30 as well."""

ALONE, SERVICE = "http-1-1", "alone"
ABOUT = frozenset(
    {"StartupProbeRunsAgain", "ReadinessProbeFailing", "PodInTransition", "EndpointsWouldBeLost", "ServicesNotReadable"}
)
"""The reasons of the checks on probes and Services."""

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


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster as it was at first, where one of the pods alone backs another Service."""
    assert cluster.kubelet_version() == OLD
    cluster.lab.kubectl("label", "--overwrite", "pod", ALONE, "--namespace", probed.NAMESPACE, "alone=yes")
    cluster.lab.apply({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": probed.NAMESPACE},
        "spec": {"selector": {"alone": "yes"}, "ports": [{"port": 80, "targetPort": probed.PORT}]},
    })  # fmt: skip

    def served() -> bool:
        labels = f"kubernetes.io/service-name={SERVICE}"
        slices = cluster.lab.api.list("endpointslices", namespace=probed.NAMESPACE, labels=labels)
        return any(each.get("endpoints") for each in slices)

    wait_until("its endpoint", served, timeout=120)
    yield cluster
    cluster.lab.kubectl("delete", "service", SERVICE, "--namespace", probed.NAMESPACE)


def looked_at(cluster: Cluster, name: str, **verify: str) -> Object:
    """Have the node examined only, and return its task's status."""
    return look(cluster, name, NEW, verify={"settle": "15s", **verify}).task


def hazards(status: Object) -> dict[str, list[Any]]:
    """Return by reason, of those that this is about, whether it is only a warning, and its message."""
    found: dict[str, list[Any]] = {}
    for hazard in status.get("hazards", []):
        if hazard["reason"] in ABOUT:
            found.setdefault(hazard["reason"], []).append((hazard["warning"], hazard["detail"]))
    return found


def test_where_pods_are_guarded_only_startup_probes_that_nothing_vouches_for_are_told(alone: Cluster) -> None:
    status = looked_at(alone, "guarded")

    assert status["phase"] == "Prechecked", status
    told = hazards(status)
    assert list(told) == ["StartupProbeRunsAgain"], told
    [(warning, detail)] = told["StartupProbeRunsAgain"]
    assert warning
    assert detail.endswith(": probed/grpc-startup-11/answer")


def test_without_a_guard_services_lose_endpoints(alone: Cluster) -> None:
    with without_guard(alone):
        status, unasked = looked_at(alone, "unguarded"), looked_at(alone, "off", readinessGuard="Off")

    assert status["phase"] == "Prechecked", status
    told = hazards(status)
    assert set(told) == {"StartupProbeRunsAgain", "EndpointsWouldBeLost"}, told
    budgets = [detail for _, detail in told["EndpointsWouldBeLost"] if detail.startswith("PodDisruptionBudget ")]
    assert ["nodeupgrade-operator" in detail for detail in budgets] == [True], "both replicas are on this node"
    deserted, fewer = (detail for _, detail in told["EndpointsWouldBeLost"] if detail not in budgets)
    assert deserted.startswith(f"Service probed/{SERVICE} has no other ready endpoint than probed/{ALONE}: ")
    assert fewer.startswith("1 Service (probed/probed) would keep some endpoints and lose others")
    assert set(hazards(unasked)) == {"StartupProbeRunsAgain"}


@pytest.mark.slow
def test_a_container_that_may_be_killed_while_it_is_watched_refuses_the_node(alone: Cluster) -> None:
    image = probed.workload(1, alone.node.name, kubelet=OLD, slowest=10)[0]["spec"]["containers"][0]
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 5, "failureThreshold": 100}
    container = {key: image[key] for key in ("name", "image", "imagePullPolicy", "command")} | {"startupProbe": probe}
    alone.lab.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow", "namespace": probed.NAMESPACE},
        "spec": {"nodeName": alone.node.name, "terminationGracePeriodSeconds": 1, "containers": [container]},
    })  # fmt: skip

    def runs() -> bool:
        pod = alone.lab.api.get("pods", "slow", namespace=probed.NAMESPACE)
        return bool(pod["status"].get("phase") == "Running")

    wait_until("the pod", runs, timeout=120)
    try:
        unwatched, status = looked_at(alone, "slow"), looked_at(alone, "slow-and-watched", settle="10m")
    finally:
        alone.lab.kubectl("delete", "pod", "slow", "--namespace", probed.NAMESPACE)

    assert unwatched["phase"] == "Prechecked", unwatched
    assert "probed/slow/answer" in hazards(unwatched)["StartupProbeRunsAgain"][0][1]
    assert (status["phase"], status["reason"]) == ("Refused", "PodInTransition")
    assert "probed/slow/answer: its startup probe has not succeeded yet" in status["message"]
    assert hazards(status)["PodInTransition"][0][0] is False


@pytest.mark.slow
def test_nor_the_other_way_and_a_container_that_crashes_meanwhile_is_reported_at_once(cluster: Cluster) -> None:
    verify = {"settle": "30s", "readinessGuard": "Require"}
    with Crash(cluster, after=8) as crash:
        found = clients.swap(cluster, NEW, "Require", pods=PODS, verify=verify)

    assert asnode.DENIED in crash.objection
    print(f"seen by the kubelet after {crash.seen_after} s, by everybody {crash.unready_after} s later")
    assert 0 < crash.unready_after <= TOLD_WITHIN
    nobody_noticed(cluster, found, but=frozenset({POD}))
