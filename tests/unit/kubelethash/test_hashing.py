"""Tests hashes against published values, their properties for generated containers, and rejected input."""

from typing import Any

import pytest
from hypothesis import given

from nodeupgrade.kubelethash import (
    NEWEST_MINOR,
    UnhashableContainer,
    UnsupportedKubelet,
    default_static_container,
    hash_container,
    hash_manifest_container,
    hash_without_resources,
)
from tests.builders.containers import CONTAINERS, MINORS, hashed, with_empties, with_keys_reversed, without_newer_fields

MIN = {
    "name": "min",
    "image": "busybox",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
# The container of Kubernetes' own TestHashContainer.
TEST = {
    "name": "test_container",
    "image": "foo/image:v1",
    "command": ["/bin/testcmd"],
    "args": ["/bin/sh", "-c", "echo abc"],
    "ports": [{"containerPort": 8001}],
    "env": [
        {"name": "ENV_FOO", "value": "bar"},
        {"name": "ENV_BAR", "valueFrom": {"secretKeyRef": {"name": "foo", "key": "bar", "optional": True}}},
    ],
    "resources": {"limits": {"foo": "1G"}, "requests": {"foo": "500M"}},
}
RESIZE = [
    {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
    {"resourceName": "memory", "restartPolicy": "NotRequired"},
]


@pytest.mark.parametrize(
    ("container", "kubelet", "expected"),
    [
        pytest.param(TEST, "1.16", "311670a", id="kubernetes' constant, era C"),
        pytest.param(TEST, "1.30", "311670a", id="kubernetes' constant, era C, newest"),
        pytest.param(TEST, "1.31", "8e45cbd0", id="kubernetes' constant, era D"),
        pytest.param({"name": "foo", "image": "bar"}, "1.37", "11a6d6d6", id="kubernetes' constant, name and image"),
        pytest.param(TEST, "1.8", "856b831b", id="era B, Go types of 1.8.15"),
        pytest.param(TEST, "1.12", "f39e1ad", id="era B, Go types of 1.12.10"),
        pytest.param(MIN, "1.8", "eaf9949f", id="era B, 1.8, minimal"),
        pytest.param(MIN, "1.14", "662f787f", id="era B, 1.14, minimal"),
        pytest.param(MIN, "1.30", "7d04f2cb", id="era C, minimal"),
        pytest.param(MIN, "1.5", "9ff3dbdb", id="era A, minimal"),
    ],
)
def test_known_hash(container: dict[str, Any], kubelet: str, expected: str) -> None:
    assert hash_container(container, kubelet) == expected


def test_hash_without_resources_is_kubernetes_own_constant() -> None:
    container = {"name": "foo", "image": "bar", "resizePolicy": RESIZE, "resources": {"limits": {"cpu": "1"}}}
    assert hash_without_resources(container, "1.27") == "5f62cb4c"


@pytest.mark.parametrize("kubelet", ["1.26", "1.31"])
def test_hash_without_resources_exists_in_four_minors_only(kubelet: str) -> None:
    with pytest.raises(UnsupportedKubelet, match=r"only kubelets 1\.27 to 1\.30"):
        hash_without_resources(MIN, kubelet)


def test_empty_and_absent_differ_only_for_manifests() -> None:
    container = {**MIN, "command": [], "resources": {"limits": {}}}
    assert hash_container(container, "1.14") == "662f787f"
    assert hash_manifest_container(container, "1.14") == "3f0e84a1"
    assert hash_manifest_container(container, "1.16") == hash_container(MIN, "1.16")


@pytest.mark.parametrize(
    ("field", "value", "path", "reason"),
    [
        pytest.param("args", ["a", "b\b"], "args[1]", "backspace", id="backspace"),
        pytest.param("env", [{"name": "A", "value": "\f"}], "env[0].value", "form feed", id="form feed"),
        pytest.param("image", "a\udcffb", "image", "not valid UTF-8", id="invalid UTF-8"),
        pytest.param(
            "resources", {"limits": []}, "resources.limits", "a map is expected, not a list", id="list for map"
        ),
        pytest.param("command", {}, "command", "a list is expected, not a map", id="map for list"),
        pytest.param("stdin", "true", "stdin", "true or false is expected, not a string", id="text for bool"),
        pytest.param("ports", [{"containerPort": True}], "ports[0].containerPort", "a whole number", id="bool for int"),
        pytest.param("ports", [{"containerPort": 2**31}], "ports[0].containerPort", "beyond 32 bits", id="int32"),
        pytest.param("securityContext", {"runAsUser": 2**63}, "securityContext.runAsUser", "64 bits", id="int64"),
        pytest.param("livenessProbe", {"httpGet": {"port": 1.5}}, "livenessProbe.httpGet.port", "a name", id="port"),
        pytest.param(
            "resources", {"requests": {"cpu": "1000E"}}, "resources.requests.cpu", "loses its suffix", id="huge"
        ),
        pytest.param(
            "resources", {"requests": {"cpu": "1e99999999999"}}, "resources.requests.cpu", "not a quantity", id="wrap"
        ),
        pytest.param("args", [None], "args[0]", "a string is expected, not nothing", id="null in a list"),
    ],
)
def test_what_cannot_be_hashed_surely_is_refused_by_name(field: str, value: object, path: str, reason: str) -> None:
    with pytest.raises(UnhashableContainer, match=reason) as refused:
        hash_container({**MIN, field: value}, "1.30")
    assert (refused.value.container, refused.value.path) == ("min", path)


def test_what_a_kubelet_does_not_hash_is_not_refused() -> None:
    uncertain = {**MIN, "args": ["\b"], "startupProbe": {"exec": {"command": ["\b"]}}}
    assert hash_container(uncertain, "1.31") == hash_container(MIN, "1.31")
    assert hash_container({**MIN, "startupProbe": 5}, "1.15") == hash_container(MIN, "1.15")


@pytest.mark.parametrize("kubelet", ["1.14", "1.30", "1.33"])
def test_what_is_no_container_at_all_is_refused(kubelet: str) -> None:
    no_container: Any = ["name", "image"]
    with pytest.raises(UnhashableContainer, match="a map is expected, not a list"):
        hash_container(no_container, kubelet)


def test_text_that_no_kubelet_could_hold_is_refused_in_the_spew_eras_too() -> None:
    with pytest.raises(UnhashableContainer, match="not valid UTF-8"):
        hash_container({**MIN, "args": ["\ud800"]}, "1.14")


@pytest.mark.parametrize(
    ("kubelet", "reason"),
    [
        (f"1.{NEWEST_MINOR + 1}.0", f"newest kubelet known here is 1.{NEWEST_MINOR}"),
        ("2.0.0", f"newest kubelet known here is 1.{NEWEST_MINOR}"),
        ("1.4.12", "oldest kubelet known here is 1.5"),
        ("1.31.0-alpha.1", "pre-release"),
        ("latest", "not a version"),
    ],
)
def test_unknown_kubelets_are_refused(kubelet: str, reason: str) -> None:
    with pytest.raises(UnsupportedKubelet, match=reason):
        hash_container(MIN, kubelet)


@pytest.mark.parametrize(
    ("memory", "kubelet", "expected"),
    [
        pytest.param("1.5Gi", "1.12", "7f71d410", id="Go types of 1.12.10"),
    ],
)
def test_quantities_of_manifests_are_rounded_as_go_rounds(memory: str, kubelet: str, expected: str) -> None:
    written = {"name": "c", "image": "nginx:1", "resources": {"requests": {"memory": memory}}}
    assert hash_manifest_container(default_static_container(written, host_network=False), kubelet) == expected


@given(CONTAINERS, MINORS)
def test_fields_newer_than_a_kubelet_do_not_reach_its_hash(container: dict[str, Any], minor: int) -> None:
    unknown = {**container, "fieldOfTomorrow": {"x": [1]}}
    assert hashed(unknown, minor) == hashed(without_newer_fields(container, minor), minor)


@given(CONTAINERS, MINORS)
def test_null_empty_and_absent_agree(container: dict[str, Any], minor: int) -> None:
    assert hashed(with_empties(container), minor) == hashed(container, minor)


@given(CONTAINERS, MINORS)
def test_the_order_of_keys_is_irrelevant(container: dict[str, Any], minor: int) -> None:
    assert hashed(with_keys_reversed(container), minor) == hashed(container, minor)
