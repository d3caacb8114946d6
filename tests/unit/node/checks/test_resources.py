"""Tests how resource requests and allocatable resources are calculated."""

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.settings import configured
from nodeupgrade.node.checks.resources import allocatable, amounts, demand
from tests.builders.admitted import CAPACITY, SIDECAR


def asks(**requests: str) -> Json:
    return {"resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "status", "cpu"),
    [
        ({"containers": [{"name": "a", **asks(cpu="100m")}, {"name": "b", **asks(cpu="1")}]}, {}, 1100),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "200m"}}}]}, {}, 200),
        (
            {"containers": [{"name": "a", **asks(cpu="1")}], "initContainers": [{"name": "i", **asks(cpu="3")}]},
            {},
            3000,
        ),
        (
            {
                "containers": [{"name": "a", **asks(cpu="1")}],
                "initContainers": [{**SIDECAR, **asks(cpu="2")}, {"name": "i", **asks(cpu="1500m")}],
            },
            {},
            3500,
        ),
        ({"containers": [{"name": "a", **asks(cpu="1")}], "overhead": {"cpu": "250m"}}, {}, 1250),
        ({"containers": [{"name": "a", **asks(cpu="1")}], **asks(cpu="2")}, {}, 2000),
        ({"containers": [{"name": "a", **asks(cpu="0.0001")}]}, {}, 1),
        (
            {"containers": [{"name": "a", **asks(cpu="1")}]},
            {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1500m"}}]},
            1500,
        ),
    ],
)
def test_what_a_pod_asks_for(spec: Json, status: Json, cpu: int) -> None:
    assert demand(parse_pod({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}))["cpu"] == cpu


@pytest.mark.parametrize(
    ("config", "memory"),
    [
        (b"", 8192 - 1024 - 100),
        (b"evictionHard: {}", 8192 - 1024),
        (b"evictionHard: {nodefs.available: 1%}", 8192 - 1024),
        (b"evictionHard: {nodefs.available: 1%}\nmergeDefaultEvictionSettings: true", 8192 - 1024 - 100),
        (b"kubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 512Mi}", 8192 - 1024 - 100 - 1536),
    ],
)
def test_what_a_kubelet_gives(config: bytes, memory: int) -> None:
    assert allocatable(configured((), config), amounts(CAPACITY))["memory"] == memory * 1024**2


def test_thresholds_of_eviction_may_be_left_out_of_the_reckoning() -> None:
    ignoring = configured(("--experimental-allocatable-ignore-eviction", "--v=2"), b"")

    assert allocatable(ignoring, amounts(CAPACITY))["memory"] == (8192 - 1024) * 1024**2


def test_of_a_resize_of_the_pod_itself_counts_what_the_kubelet_has_agreed_to() -> None:
    spec = {"containers": [{"name": "a", **asks(cpu="1", memory="1")}], **asks(cpu="64"), "overhead": {"cpu": "250m"}}
    status = {"allocatedResources": {"cpu": "2250m", "memory": "9"}}
    pod = parse_pod({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status})

    assert demand(pod, as_allocated=True) == {"cpu": 64250, "memory": 1}
    assert demand(pod, as_allocated=True, of_pod_as_allocated=True) == {"cpu": 2250, "memory": 1}
