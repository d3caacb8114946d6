"""`action: Plan` predicts on a real node what probes and Services mean for an upgrade."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster, Object
from e2e.lab.process import wait_until
from e2e.lab.workloads import probed
from e2e.looks import look
from e2e.preflight.kinds.node import without_guard

OLD, NEW = "1.30.14", "1.33.13"
PODS = 12
"""One of each kind."""
ALONE, SERVICE = "http-1-1", "alone"
ABOUT = frozenset(
    {"StartupProbeRunsAgain", "ReadinessProbeFailing", "PodInTransition", "EndpointsWouldBeLost", "ServicesNotReadable"}
)
"""The reasons of the checks that this is about."""


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A node with pods behind a Service, one of which alone backs another Service."""
    made = shared_cluster(pods=PODS)
    probed.start(made.lab, PODS, made.node.name, slowest=10)
    made.lab.kubectl("label", "pod", ALONE, "--namespace", probed.NAMESPACE, "alone=yes")
    made.lab.apply({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": probed.NAMESPACE},
        "spec": {"selector": {"alone": "yes"}, "ports": [{"port": 80, "targetPort": probed.PORT}]},
    })  # fmt: skip

    def served() -> bool:
        labels = f"kubernetes.io/service-name={SERVICE}"
        slices = made.lab.api.list("endpointslices", namespace=probed.NAMESPACE, labels=labels)
        return any(each.get("endpoints") for each in slices)

    wait_until("its endpoint", served, timeout=120)
    yield made
    made.lab.kubectl("delete", "namespace", probed.NAMESPACE, timeout=180)


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


def test_where_pods_are_guarded_only_startup_probes_that_nothing_vouches_for_are_told(cluster: Cluster) -> None:
    status = looked_at(cluster, "guarded")

    assert status["phase"] == "Prechecked", status
    told = hazards(status)
    assert list(told) == ["StartupProbeRunsAgain"], told
    [(warning, detail)] = told["StartupProbeRunsAgain"]
    assert warning
    assert detail.endswith(": probed/grpc-startup-11/answer, workload/sidecar-1/sidecar")


def test_without_a_guard_services_lose_endpoints(cluster: Cluster) -> None:
    with without_guard(cluster):
        status, unasked = looked_at(cluster, "unguarded"), looked_at(cluster, "off", readinessGuard="Off")

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
def test_a_container_that_may_be_killed_while_it_is_watched_refuses_the_node(cluster: Cluster) -> None:
    image = probed.workload(1, cluster.node.name, kubelet=OLD, slowest=10)[0]["spec"]["containers"][0]
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 5, "failureThreshold": 100}
    container = {key: image[key] for key in ("name", "image", "imagePullPolicy", "command")} | {"startupProbe": probe}
    cluster.lab.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow", "namespace": probed.NAMESPACE},
        "spec": {"nodeName": cluster.node.name, "terminationGracePeriodSeconds": 1, "containers": [container]},
    })  # fmt: skip

    def runs() -> bool:
        pod = cluster.lab.api.get("pods", "slow", namespace=probed.NAMESPACE)
        return bool(pod["status"].get("phase") == "Running")

    wait_until("the pod", runs, timeout=120)
    unwatched, status = looked_at(cluster, "slow"), looked_at(cluster, "slow-and-watched", settle="10m")

    assert unwatched["phase"] == "Prechecked", unwatched
    assert "probed/slow/answer" in hazards(unwatched)["StartupProbeRunsAgain"][0][1]
    assert (status["phase"], status["reason"]) == ("Refused", "PodInTransition")
    assert "probed/slow/answer: its startup probe has not succeeded yet" in status["message"]
    assert hazards(status)["PodInTransition"][0][0] is False
