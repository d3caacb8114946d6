"""Tests the defaults that a kubelet sets in static Pod manifests."""

from typing import Any

import pytest

from nodeupgrade.kubelethash import default_static_container, hash_manifest_container


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
