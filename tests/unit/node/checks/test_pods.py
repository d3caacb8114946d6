"""Tests the checks of Pods."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import GuardGrant
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.pods import (
    control_plane_is_not_of_kubeadm,
    edits_of_manifests_count,
    evicted_without_a_mark,
    pods_outlast_a_node_that_is_not_ready,
    static_pods_run_on,
)
from nodeupgrade.node.plan.static_pod_uids import StaticPod
from tests.builders.node_cases import V, pods
from tests.builders.sound import facts, kubelet, pod, sandbox, task_spec

BRIEF = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
OTHER = [{"key": "other", "operator": "Exists"}]
BACK = KubeletVersion.parse("v1.29.15")


@pytest.mark.parametrize("tolerations", [BRIEF, [], OTHER], ids=["5 s", "none", "other"])
def test_pods_that_leave_a_node_at_once_are_told_of(tolerations: list[Any]) -> None:
    (finding,) = pods_outlast_a_node_that_is_not_ready(facts(target=BACK, pods=pods(tolerations=tolerations)))

    assert (finding.reason, finding.forbids) == (Reason.TAINT_NOT_TOLERATED, False)
    assert "delete 1 pod without a toleration of node.kubernetes.io/not-ready for 30 s: default/web" in finding.detail


@pytest.mark.parametrize(
    "fine",
    [
        {"target": BACK, "pods": pods(tolerations=[{**BRIEF[0], "tolerationSeconds": 300}])},
        {"target": BACK, "pods": pods(tolerations=[{"operator": "Exists"}])},
        {
            "spec": replace(task_spec(), to_version=str(BACK), guard=GuardGrant(wanted=True)),
            "pods": pods(tolerations=BRIEF),
        },
        {"target": KubeletVersion.parse("v1.31.1"), "pods": pods(tolerations=BRIEF)},
    ],
    ids=["300 s", "for ever", "guarded", "from 1.31 on"],
)
def test_pods_that_stay_are_not_told_of(fine: dict[str, Any]) -> None:
    assert not list(pods_outlast_a_node_that_is_not_ready(facts(**fine)))


@pytest.mark.parametrize(
    ("current", "target", "tolerations", "evicted"),
    [
        ("v1.24.17", "v1.25.16", BRIEF, ("uid-web",)),
        ("v1.25.16", "v1.24.17", [{**BRIEF[0], "tolerationSeconds": 300}], ()),
        ("v1.25.16", "v1.26.15", BRIEF, ()),
        ("v1.26.15", "v1.25.16", BRIEF, ()),
    ],
)
def test_before_1_26_nothing_marks_an_eviction(
    current: str, target: str, tolerations: list[Any], evicted: tuple[str, ...]
) -> None:
    seen = facts(target=V(target), kubelet=kubelet(current=V(current)), pods=pods(tolerations=tolerations))

    assert tuple(evicted_without_a_mark(seen)) == evicted


ETCD = PodRef(namespace="kube-system", name="etcd-node-a", uid=PodUid("0123"))


@pytest.mark.parametrize(("current", "told"), [("v1.30.14", 0), ("v1.31.0", 1), ("v1.33.13", 1)])
def test_an_edit_that_has_no_effect_yet_is_a_warning(current: str, told: int) -> None:
    """Kubelets up to 1.30 hash the whole container, so there it has one."""
    edited = (StaticPod(path="/m/etcd.yaml", data=b"", manifest={}, sandbox=sandbox(ETCD)),)

    found = tuple(edits_of_manifests_count(facts(edited=edited, kubelet=kubelet(current=V(current)))))

    assert [(each.subject, each.forbids) for each in found] == [(str(ETCD), False)] * told
    assert all("/m/etcd.yaml was edited" in each.detail for each in found)


def by_kubeadm(*keys: str) -> tuple[Any, ...]:
    made = pod()
    return (
        parse_pod({**made, "metadata": {**made["metadata"], "annotations": dict.fromkeys(keys, "https://10.0.0.1")}}),
    )


@pytest.mark.parametrize(
    ("current", "also"), [("v1.30.14", True), ("v1.33.12", False)], ids=["another minor", "the same minor"]
)
def test_on_a_control_plane_of_kubeadm_the_plan_says_the_order(current: str, also: bool) -> None:
    there = facts(
        pods=by_kubeadm("kubeadm.kubernetes.io/etcd.advertise-client-urls"),
        kubelet=kubelet(current=V(current)),
    )

    (found,) = control_plane_is_not_of_kubeadm(there)

    assert (found.reason, found.forbids) == (Reason.KUBEADM_UPGRADES_FIRST, False)
    assert "`kubeadm upgrade` comes first" in found.detail
    assert ("leaves metadata.uid" in found.detail) is also


def test_elsewhere_it_says_nothing_of_kubeadm() -> None:
    assert not [*control_plane_is_not_of_kubeadm(facts(pods=by_kubeadm("kubernetes.io/config.source")))]


def test_every_static_pod_that_is_replaced_is_a_warning() -> None:
    (found,) = static_pods_run_on(facts(recreated=(ETCD,)))

    assert (found.reason, found.subject, found.forbids) == (Reason.STATIC_PODS_RECREATED, str(ETCD), False)
