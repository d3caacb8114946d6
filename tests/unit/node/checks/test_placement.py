"""Tests the checks of taints and tolerations."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.node.checks.placement import taints_are_tolerated
from tests.builders.node_cases import TAINTED, V, pods
from tests.builders.sound import facts, kubelet

TOLERANT = {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}


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
