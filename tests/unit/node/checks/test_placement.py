"""Tests the checks of taints and tolerations, and of labels that a kubelet sets."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.node.checks.placement import labels_are_kept, labels_are_read_first, taints_are_tolerated
from tests.builders.admission_record_cases import NAMED, RACK, ZONE
from tests.builders.admitted import admission, pod
from tests.builders.node_cases import TAINTED, V, pods
from tests.builders.sound import facts, kubelet

TOLERANT = {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}


GREATER = {"tolerations": [{"key": "wear", "operator": "Gt", "value": "5"}]}
LESSER = {"tolerations": [{"key": "wear", "operator": "Lt", "value": "5", "effect": "NoExecute"}]}
OTHER = {"tolerations": [{"key": "load", "operator": "Gt", "value": "5"}]}
GATE = {"TaintTolerationComparisonOperators": True}


@pytest.mark.parametrize(
    ("spec", "worn", "gates", "versions", "tolerated"),
    [
        (GREATER, "6", GATE, ("v1.35.1", "v1.36.1"), True),
        (GREATER, "6", {"AllAlpha": True}, ("v1.35.1", "v1.36.1"), True),
        (LESSER, "4", GATE, ("v1.35.1", "v1.36.1"), True),
        (LESSER, "-4", GATE, ("v1.35.1", "v1.36.1"), True),
        (GREATER, "5", GATE, ("v1.35.1", "v1.36.1"), False),
        (LESSER, "5", GATE, ("v1.35.1", "v1.36.1"), False),
        (OTHER, "6", GATE, ("v1.35.1", "v1.36.1"), False),
        (GREATER, "high", GATE, ("v1.35.1", "v1.36.1"), False),
        (GREATER, "6", {}, ("v1.35.1", "v1.36.1"), False),
        (GREATER, "6", GATE, ("v1.34.2", "v1.35.1"), False),
    ],
)
def test_values_are_compared_where_the_gate_is_on(
    spec: Any, worn: str, gates: dict[str, bool], versions: tuple[str, str], tolerated: bool
) -> None:
    taints = [{"key": "wear", "value": worn, "effect": "NoExecute"}]
    node = {**TAINTED, "spec": {"taints": taints}}
    current, target = map(V, versions)
    found = facts(
        node=node, pods=pods(**spec), target=target, kubelet=kubelet(current=current, staged_version=versions[1])
    )
    found = replace(found, readiness=replace(found.readiness, layout=replace(found.readiness.layout, gates=gates)))

    assert (not list(taints_are_tolerated(found))) is tolerated


@pytest.mark.parametrize(
    "fine",
    [
        {"pods": pods(**TOLERANT)},
        {"pods": tuple(replace(each, from_manifest=True) for each in pods())},
        {"target": V("v1.23.17"), "kubelet": kubelet(current=V("v1.22.17"), staged_version="v1.23.17")},
    ],
    ids=["tolerated", "a static pod", "kubelets that do not look"],
)
def test_a_taint_that_harms_nobody_is_passed_over(fine: dict[str, Any]) -> None:
    assert not list(taints_are_tolerated(facts(node=TAINTED, **fine)))


@pytest.mark.parametrize(
    ("label", "versions", "puts_back"),
    [
        ("topology.kubernetes.io/zone", ("v1.15.12", "v1.16.15"), False),
        ("topology.kubernetes.io/zone", ("v1.17.17", "v1.16.15"), True),
        ("topology.kubernetes.io/zone", ("v1.16.15", "v1.17.17"), True),
        ("failure-domain.beta.kubernetes.io/zone", ("v1.6.13", "v1.7.16"), False),
        ("failure-domain.beta.kubernetes.io/zone", ("v1.7.16", "v1.8.15"), True),
        ("kubernetes.io/arch", ("v1.12.10", "v1.13.12"), False),
        ("kubernetes.io/arch", ("v1.13.12", "v1.14.10"), True),
    ],
)
def test_a_label_is_put_back_by_either_kubelet_that_may_start(
    label: str, versions: tuple[str, str], puts_back: bool
) -> None:
    labels, words = {label: "b"}, (f"--node-labels={label}=a",)
    found = admission(pod(nodeSelector=labels), labels=labels, words=words, versions=versions)

    assert bool(list(labels_are_kept(found))) is puts_back


def test_a_hostname_that_is_not_known_is_taken_from_the_node() -> None:
    found = admission(pod(nodeSelector=NAMED), labels=NAMED, versions=("v1.17.17", "v1.18.15"))

    assert not list(labels_are_read_first(found))
    assert not list(labels_are_kept(found))
    assert list(labels_are_read_first(replace(found, hostname="node-a")))


def test_a_label_that_no_pod_asks_for_may_be_put_back() -> None:
    assert not list(labels_are_kept(admission(pod(), labels=ZONE, words=RACK)))
