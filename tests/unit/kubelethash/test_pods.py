"""What differs between minors about whole pods: compared containers, QoS class, static pods."""

from typing import Any

import pytest

from nodeupgrade.kubelethash import (
    UnreadablePod,
    compared_containers,
    default_static_container,
    hash_manifest_container,
    qos_class,
)

BOTH = {"cpu": "1", "memory": "1Gi"}
GUARANTEED = {"limits": BOTH, "requests": {"cpu": "1000m", "memory": "1024Mi"}}


def pod(containers: list[Any], init: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    named = [{"name": f"c{index}", "resources": each} for index, each in enumerate(containers)]
    inits = [{"name": f"i{index}", "resources": each} for index, each in enumerate(init or [])]
    return {"spec": {"containers": named, "initContainers": inits, **more.pop("spec", {})}, **more}


@pytest.mark.parametrize(("kubelet", "names"), [("1.5", ("main",)), ("1.31", ("main",)), ("1.32", ("main", "sidecar"))])
def test_sidecars_are_compared_from_1_32_on(kubelet: str, names: tuple[str, ...]) -> None:
    spec = {
        "initContainers": [{"name": "once"}, {"name": "sidecar", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    assert compared_containers({"spec": spec}, kubelet) == names


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ({}, "spec"),
        ({"spec": {}}, "spec.containers"),
        ({"spec": {"containers": [], "initContainers": {}}}, "spec.initContainers"),
    ],
)
def test_what_is_not_a_pod_is_refused(broken: dict[str, Any], path: str) -> None:
    with pytest.raises(UnreadablePod) as refused:
        compared_containers(broken, "1.33")
    assert refused.value.path == path


UNEVEN = [
    {"limits": BOTH, "requests": {"cpu": "1", "memory": "512Mi"}},
    {"limits": BOTH, "requests": {"cpu": "1", "memory": "1536Mi"}},
]


@pytest.mark.parametrize(
    ("subject", "classes"),
    [
        pytest.param(pod([GUARANTEED]), {"1.5": "Guaranteed", "1.37": "Guaranteed"}, id="guaranteed"),
        pytest.param(pod([{}]), {"1.5": "BestEffort", "1.37": "BestEffort"}, id="best effort"),
        pytest.param(pod([GUARANTEED, {}]), {"1.5": "Burstable", "1.37": "Burstable"}, id="one unlimited"),
        pytest.param(pod([{"requests": {"cpu": "0"}}]), {"1.5": "BestEffort", "1.37": "BestEffort"}, id="zero"),
        pytest.param(pod([GUARANTEED], [{}]), {"1.15": "Guaranteed", "1.16": "Burstable"}, id="unlimited init"),
        pytest.param(pod([{}], [GUARANTEED]), {"1.15": "BestEffort", "1.16": "Burstable"}, id="limited init"),
        pytest.param(
            pod([{"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}]),
            {"1.7": "BestEffort", "1.8": "Burstable", "1.9": "Burstable", "1.10": "BestEffort"},
            id="huge pages",
        ),
        pytest.param(
            pod([{}], status={"qosClass": "Guaranteed"}),
            {"1.28": "BestEffort", "1.29": "Guaranteed"},
            id="status",
        ),
        pytest.param(
            pod([{}], spec={"resources": GUARANTEED}),
            {"1.33": "BestEffort", "1.34": "Guaranteed"},
            id="resources of the pod",
        ),
        pytest.param(
            pod([GUARANTEED], spec={"resources": {}}),
            {"1.33": "Guaranteed", "1.34": "BestEffort", "1.36": "BestEffort", "1.37": "Guaranteed"},
            id="resources of the pod that say nothing",
        ),
        pytest.param(
            pod([GUARANTEED], spec={"resources": {"requests": {"hugepages-2Mi": "0"}}}),
            {"1.36": "BestEffort", "1.37": "BestEffort"},
            id="resources of the pod that say something else",
        ),
        pytest.param(
            pod([{"limits": BOTH}], [{}]),
            {"1.15": "Guaranteed", "1.16": "Burstable"},
            id="a manifest's limits are its requests",
        ),
        pytest.param(
            pod([{}], spec={"resources": {"limits": BOTH}}),
            {"1.33": "BestEffort", "1.34": "Guaranteed", "1.36": "Guaranteed", "1.37": "Burstable"},
            id="a manifest's limits of the pod",
        ),
        pytest.param(pod(UNEVEN), {"1.36": "Guaranteed", "1.37": "Burstable"}, id="equal in sum only"),
    ],
)
def test_qos_class_is_what_the_minor_computes(subject: dict[str, Any], classes: dict[str, str]) -> None:
    assert {kubelet: qos_class(subject, kubelet) for kubelet in classes} == classes


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("reg.example:5000/nginx", "Always"),
        ("reg.example:5000/nginx:1.25", "IfNotPresent"),
        ("nginx@sha256:aa", "IfNotPresent"),
        ("nginx:latest@sha256:aa", "Always"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert default_static_container({"image": image}, host_network=False)["imagePullPolicy"] == policy


def test_a_manifest_gets_the_defaults_of_the_kubelet() -> None:
    written = {
        "name": "etcd",
        "image": "etcd:3",
        "command": [],
        "workingDir": None,
        "ports": [{"containerPort": 2379}, {"containerPort": 1, "hostPort": 2, "protocol": "UDP"}],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
        "livenessProbe": {"httpGet": {"port": 2381}, "failureThreshold": 8},
        "readinessProbe": {"grpc": {"port": 1}},
        "lifecycle": {"preStop": {"httpGet": {"port": 1, "path": "/x"}}, "stopSignal": "SIGUSR1"},
    }
    assert default_static_container(written, host_network=True) == {
        "name": "etcd",
        "image": "etcd:3",
        "command": [],
        "ports": [
            {"containerPort": 2379, "hostPort": 2379, "protocol": "TCP"},
            {"containerPort": 1, "hostPort": 2, "protocol": "UDP"},
        ],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}},
        "livenessProbe": {
            "httpGet": {"path": "/", "port": 2381, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 8,
        },
        "readinessProbe": {
            "grpc": {"port": 1, "service": ""},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "lifecycle": {
            "preStop": {"httpGet": {"path": "/x", "port": 1, "scheme": "HTTP"}},
            "stopSignal": "SIGUSR1",
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


@pytest.mark.parametrize(
    ("resources", "written", "added"),
    [
        ({"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}, None, ["cpu", "memory"]),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, [{"resourceName": "cpu", "restartPolicy": "R"}], ["memory"]),
        ({"requests": {"example.com/gpu": "1"}}, None, []),
        (None, None, []),
    ],
)
def test_a_manifest_gets_a_resize_policy_where_the_gate_is_on(resources: Any, written: Any, added: list[str]) -> None:
    container = {"name": "c", "image": "i:1", "resources": resources, "resizePolicy": written}
    plain = default_static_container(container, host_network=False)
    gated = default_static_container(container, host_network=False, in_place_resize=True)
    policies = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in added]
    assert gated["resizePolicy"] == [*(written or []), *policies]
    for kubelet, differs in {"1.26": False, "1.27": True, "1.30": True, "1.31": False}.items():
        changed = hash_manifest_container(plain, kubelet) != hash_manifest_container(gated, kubelet)
        assert changed == (differs and bool(added)), kubelet
