"""Tests how static Pods are matched with their manifests, and which manifests are pinned."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import Role
from nodeupgrade.node.plan.manifest_uid import pin
from nodeupgrade.node.plan.static_pod_uids import Pins, StaticPods, manifest_views, match, plan_pins
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.builders.sound import sandbox
from tests.builders.static_pod_manifests import PLAIN, REFUSED, UID

ETCD = PodRef(namespace="kube-system", name="etcd-node-a", uid=PodUid(UID))


def one(manifests: dict[str, str], ref: PodRef = ETCD, *, node: str = "node-a", **fields: Any) -> StaticPods:
    known: dict[str, Any] = {"config_source": "file", "static_hash": ref.uid, "host_network": True, "ip": ""}
    data = {path: text.encode() for path, text in manifests.items()}
    return match(data, Inventory(sandboxes=(sandbox(ref, **{**known, **fields}),)), node)


def test_a_running_static_pod_is_found_by_its_name_and_pinned() -> None:
    other = PLAIN.replace("etcd", "other")

    found = one({"/m/etcd.yaml": PLAIN, "/m/other.yaml": other, "/m/config.yaml": "kind: ConfigMap"})

    assert [(pod.path, pod.sandbox.pod.uid) for pod in found.pods] == [("/m/etcd.yaml", UID)]
    pins = plan_pins(found)
    assert (found.findings, pins.findings, pins.kept) == ((), (), ())
    (planned,) = pins.pins
    assert (planned.path, planned.uid, planned.before) == ("/m/etcd.yaml", UID, sha256(PLAIN.encode()).hexdigest())
    assert planned.content == pin(PLAIN.encode(), UID)


def test_a_manifest_that_names_the_right_uid_needs_no_pin() -> None:
    """Ours from an earlier run is told; one that somebody else wrote is theirs."""
    theirs = PLAIN.replace("  name: etcd\n  name", f"  name: etcd\n  uid: {UID}\n  name")

    assert plan_pins(one({"/m/etcd.yaml": pin(PLAIN.encode(), UID).decode()})) == Pins(kept=("/m/etcd.yaml",))
    assert plan_pins(one({"/m/etcd.yaml": theirs})) == Pins()


def test_a_manifest_that_cannot_be_edited_is_a_finding() -> None:
    found = plan_pins(one({"/m/etcd.yaml": REFUSED["another uid"]}))

    (finding,) = found.findings
    assert found.pins == ()
    assert (finding.reason, finding.subject) == (Reason.STATIC_POD_NOT_EDITABLE, "kube-system/etcd-node-a")
    assert "/m/etcd.yaml" in finding.detail


@pytest.mark.parametrize(
    ("manifests", "told"),
    [
        ({}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("etcd", "other")}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("kube-system", "default")}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("Pod", "PodList")}, "not readable as one pod: /m/etcd.yaml"),
        ({"/m/etcd.yaml": f"---\n---\n{PLAIN}"}, "not readable as one pod: /m/etcd.yaml"),
        ({"/m/etcd.yaml": "kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\nspec: [oops]"}, "not readable"),
        ({"/m/a.yaml": PLAIN, "/m/etcd.yaml.bak": PLAIN}, "2 manifests (/m/a.yaml, /m/etcd.yaml.bak)"),
    ],
)
def test_a_static_pod_without_one_source_is_a_finding(manifests: dict[str, str], told: str) -> None:
    found = one(manifests)

    assert found.pods == ()
    (finding,) = found.findings
    assert (finding.reason, finding.subject) == (Reason.STATIC_POD_NOT_EDITABLE, "kube-system/etcd-node-a")
    assert told in finding.detail


def test_a_pod_from_a_url_has_no_manifest_here() -> None:
    assert one({}, config_source="http").findings != ()


@pytest.mark.parametrize("fields", [{"config_source": "api"}, {"config_source": None}, {"ready": False}])
def test_other_sandboxes_are_left_alone(fields: dict[str, Any]) -> None:
    assert one({"/m/etcd.yaml": PLAIN}, **fields) == StaticPods(pods=(), findings=())


def test_names_are_as_kubelets_make_them() -> None:
    """Without a namespace it is ``default``; the node's name is appended in lower case."""
    ref = replace(ETCD, namespace="default")

    assert len(one({"/m/x": PLAIN.replace("  namespace: kube-system\n", "")}, ref, node="Node-A").pods) == 1


def test_one_manifest_that_runs_twice_is_waited_for() -> None:
    """For a moment after an edit the old and the new pod are both there."""
    older = replace(ETCD, uid=PodUid("f" * 32))
    both = tuple(sandbox(ref, config_source="file") for ref in (ETCD, older))

    found = match({"/m/etcd.yaml": PLAIN.encode()}, Inventory(sandboxes=both), "node-a")

    assert [finding.reason for finding in found.findings] == [Reason.POD_IN_TRANSITION]


def test_a_static_pod_is_seen_as_its_kubelet_sees_it() -> None:
    (seen,), findings = manifest_views(one({"/m/etcd.yaml": PLAIN}))

    assert findings == ()
    assert (seen.ref, seen.from_manifest, seen.restart_policy) == (ETCD, True, "Always")
    (container,) = seen.containers
    assert (container.name, container.role) == ("etcd", Role.REGULAR)
    assert container.spec["imagePullPolicy"] == "IfNotPresent", "defaults are added as the kubelet adds them"
    assert container.spec["ports"] == [{"containerPort": 2379, "protocol": "TCP", "hostPort": 2379}]


def test_a_manifest_without_certain_hashes_is_a_finding() -> None:
    found = one({"/m/etcd.yaml": PLAIN.replace("- containerPort: 2379", "- 2379")})

    seen, (finding,) = manifest_views(found)

    assert seen == ()
    assert (finding.reason, finding.subject) == (Reason.STORED_HASH_NOT_REPRODUCED, "kube-system/etcd-node-a")
