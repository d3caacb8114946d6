"""Pods that leave a node at once if its kubelet reports, when it starts, that the node is not ready."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import GuardGrant
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.pods import pods_outlast_a_node_that_is_not_ready
from tests.unit.domain.node.checks.sound import facts, task_spec
from tests.unit.domain.node.checks.test_preflight import pods

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
