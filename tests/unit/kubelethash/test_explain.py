"""Tests how differences between the hashes of two kubelets are explained."""

from typing import Any

import pytest
from hypothesis import given

from nodeupgrade.kubelethash import NEWEST_MINOR, KubeletVersion, era_of, explain, explain_pod
from tests.builders.containers import CONTAINERS, MINORS, hashed, without_newer_fields

MOUNT = {"name": "v", "mountPath": "/v"}
PROBE = {"grpc": {"port": 1, "service": ""}, "terminationGracePeriodSeconds": 5}


@pytest.mark.parametrize(
    ("container", "from_", "to", "fields"),
    [
        pytest.param({"livenessProbe": {"tcpSocket": {"port": 1}}}, "1.6", "1.7", ["livenessProbe.tcpSocket.host"]),
        pytest.param({"volumeMounts": [MOUNT, MOUNT]}, "1.13", "1.14", ["volumeMounts[].subPathExpr"]),
        pytest.param({}, "1.8", "1.9", ["volumeDevices"]),
        pytest.param(
            {"securityContext": {}, "volumeMounts": [MOUNT]},
            "1.12",
            "1.15",
            ["volumeMounts[].subPathExpr", "securityContext.windowsOptions"],
        ),
        pytest.param(
            {"securityContext": {"seccompProfile": {"type": "U"}}}, "1.18", "1.19", ["securityContext.seccompProfile"]
        ),
        pytest.param(
            {"startupProbe": PROBE, "resources": {"claims": [{"name": "gpu"}]}},
            "1.20",
            "1.30",
            ["resources.claims", "startupProbe.grpc", "startupProbe.terminationGracePeriodSeconds"],
        ),
    ],
)
def test_fields_that_one_of_two_kubelets_knows_are_named(
    container: dict[str, Any], from_: str, to: str, fields: list[str]
) -> None:
    for one, other in ((from_, to), (to, from_)):
        change = explain({"name": "c", "image": "i", **container}, one, other)
        assert change is not None
        assert list(change.fields) == fields


@pytest.mark.parametrize(
    ("from_", "to", "sentence"),
    [
        (
            "1.5",
            "1.6",
            (
                "kubelet 1.5 hashes the Go struct's text with Adler-32, "
                "kubelet 1.6 hashes the Go struct's text with FNV-1a (kubernetes #40495)"
            ),
        ),
        (
            "1.15",
            "1.33",
            (
                "kubelet 1.15 hashes the Go struct's text with FNV-1a, kubelet 1.33 hashes only the name and the image "
                "(kubernetes #57741, kubernetes #124220)"
            ),
        ),
        (
            "1.31",
            "1.30",
            (
                "kubelet 1.31 hashes only the name and the image, kubelet 1.30 hashes the container's whole JSON "
                "(kubernetes #124220)"
            ),
        ),
        ("1.8", "1.9", "kubelet 1.9 hashes volumeDevices, set or not; kubelet 1.8 does not know it"),
    ],
)
def test_a_change_reads_as_one_sentence(from_: str, to: str, sentence: str) -> None:
    change = explain({"name": "c", "image": "i"}, from_, to)
    assert change is not None
    assert change.sentence() == sentence


@pytest.mark.parametrize(
    ("from_", "to"), [("1.10", "1.11"), ("1.12", "1.13"), ("1.16", "1.30"), ("1.31", f"1.{NEWEST_MINOR}")]
)
def test_steps_that_change_no_plain_container(from_: str, to: str) -> None:
    assert explain({"name": "c", "image": "i", "volumeMounts": [MOUNT], "securityContext": {}}, from_, to) is None


def test_only_compared_containers_restart() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": "once", "image": "i"},
                {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "main", "image": "i"}],
        },
    }
    assert [change.container for change in explain_pod(pod, "1.30", "1.31").containers] == ["main"]
    assert [change.container for change in explain_pod(pod, "1.30", "1.32").containers] == ["sidecar", "main"]
    assert explain_pod(pod, "1.32", "1.33").containers == ()


def test_reasons_that_concern_the_whole_pod_are_told() -> None:
    limited = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    pod = {
        "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "aa"}},
        "spec": {
            "initContainers": [{"name": "i", "image": "i", "resources": limited}],
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    assert explain_pod(pod, "1.15", "1.16").whole_pod == (
        "kubelet 1.15 counts the pod as BestEffort, kubelet 1.16 as Burstable, and looks for its cgroup elsewhere",
        "it is a static pod, and kubelet 1.16 gives it a new UID unless its manifest sets one",
    )
    assert explain_pod(pod, "1.16", "1.17").whole_pod == ()


@pytest.mark.parametrize(
    ("from_", "to", "told"),
    [
        ("1.33", "1.36", "kubelet 1.33 counts the pod as BestEffort, kubelet 1.36 as Guaranteed"),
        ("1.34", "1.35", None),
        ("1.34", "1.36", "kubelet 1.34 counts the pod as Guaranteed, kubelet 1.36 as BestEffort"),
        ("1.35", "1.37", "kubelet 1.35 counts the pod as Guaranteed, kubelet 1.37 as BestEffort"),
        ("1.36", "1.37", None),
        ("1.36", "1.35", None),
    ],
)
def test_resources_of_a_static_pod_itself_are_forgotten_once(from_: str, to: str, told: str | None) -> None:
    both = {"cpu": "1", "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": {"limits": both, "requests": both}}
    served = {"spec": spec, "status": {"qosClass": "Guaranteed"}}
    mirror = {**served, "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "aa"}}}

    about_class = [each for each in explain_pod(mirror, from_, to).whole_pod if "counts the pod" in each]

    assert about_class == ([] if told is None else [f"{told}, and looks for its cgroup elsewhere"])
    assert explain_pod(served, from_, to).whole_pod == ()


@pytest.mark.parametrize(
    ("from_", "to", "policy", "resources", "resized"),
    [
        ("1.32", "1.33", "RestartContainer", {"requests": {"cpu": "1"}}, True),
        ("1.32", "1.33", "RestartContainer", {"limits": {"cpu": "1"}}, True),
        ("1.32", "1.33", "NotRequired", {"requests": {"cpu": "1"}}, False),
        ("1.32", "1.33", "RestartContainer", {}, False),
        ("1.32", "1.33", "RestartContainer", {"requests": {"memory": "1Gi"}, "limits": {"cpu": "0"}}, False),
        ("1.31", "1.32", "RestartContainer", {"requests": {"cpu": "1"}}, False),
        ("1.33", "1.34", "RestartContainer", {"requests": {"cpu": "1"}}, False),
        ("1.33", "1.32", "RestartContainer", {"requests": {"cpu": "1"}}, False),
    ],
)
def test_a_restarting_resize_policy_counts_once(
    from_: str, to: str, policy: str, resources: dict[str, Any], resized: bool
) -> None:
    policies = [{"resourceName": "cpu", "restartPolicy": policy}]
    container = {"name": "c", "image": "i", "resources": resources, "resizePolicy": policies}
    change = explain_pod({"spec": {"containers": [container]}}, from_, to)
    assert (change.containers, change.resized) == ((), ("c",) if resized else ())
    assert bool(change.reasons("c")) == resized


@pytest.mark.parametrize(
    ("from_", "to", "static", "resized"),
    [
        ("1.32", "1.33", False, True),
        ("1.32", "1.35", True, False),
        ("1.32", "1.36", True, True),
        ("1.35", "1.36", True, True),
        ("1.36", "1.37", True, False),
    ],
)
def test_limits_of_the_pod_itself_count_and_static_pods_later(from_: str, to: str, static: bool, resized: bool) -> None:
    container = {
        "name": "c", "image": "i", "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
    }  # fmt: skip
    annotations = {"kubernetes.io/config.mirror": "aa"} if static else {}
    pod = {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"resources": {"limits": {"memory": "1Gi"}}, "containers": [container]},
    }
    assert explain_pod(pod, from_, to).resized == (("c",) if resized else ())


@given(CONTAINERS, MINORS, MINORS)
def test_explain_is_empty_exactly_when_the_hashes_agree(container: dict[str, Any], one: int, other: int) -> None:
    change = explain(container, KubeletVersion(1, one), KubeletVersion(1, other))
    assert (change is None) == (hashed(container, one) == hashed(container, other))
    if change is not None:
        assert (change.old, change.new) == (hashed(container, one), hashed(container, other))
        assert bool(change.fields) == (era_of(change.from_) is era_of(change.to))


@given(CONTAINERS, MINORS, MINORS)
def test_explained_fields_are_the_whole_difference(container: dict[str, Any], one: int, other: int) -> None:
    """Between two minors of era C, taking the explained fields away makes the hashes agree."""
    low, high = sorted((one % 15 + 16, other % 15 + 16))
    change = explain(container, KubeletVersion(1, low), KubeletVersion(1, high))
    pruned = without_newer_fields(container, low)
    assert (change is None) == (hashed(pruned, high) == hashed(container, high))
