"""Tests which kubelets heed the restart policies of single containers, and what these mean."""

import pytest

from nodeupgrade.kubelet.restart_policies import heeds_containers, is_over_at_zero, restart_policy
from nodeupgrade.kubelethash import KubeletVersion


@pytest.mark.parametrize(
    ("kubelet", "gates", "heeds"),
    [
        ("v1.33.13", {"ContainerRestartRules": True, "AllAlpha": True}, False),
        ("v1.34.2", {}, False),
        ("v1.34.2", {"AllBeta": True}, False),
        ("v1.34.2", {"AllAlpha": True}, True),
        ("v1.34.2", {"AllAlpha": True, "ContainerRestartRules": False}, False),
        ("v1.34.2", {"ContainerRestartRules": True}, True),
        ("v1.35.0", {}, True),
        ("v1.35.0", {"AllBeta": False}, False),
        ("v1.35.0", {"AllBeta": False, "ContainerRestartRules": True}, True),
        ("v1.37.0", {"ContainerRestartRules": False}, False),
    ],
)
def test_kubelets_heed_them_by_their_gate(kubelet: str, gates: dict[str, bool], heeds: bool) -> None:
    assert heeds_containers(KubeletVersion.parse(kubelet), gates) is heeds


@pytest.mark.parametrize(
    ("container", "heeded", "policy"),
    [
        ({}, True, "OnFailure"),
        ({"restartPolicy": "Never"}, True, "Never"),
        ({"restartPolicy": "Never"}, False, "OnFailure"),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}, True, None),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}, False, "OnFailure"),
    ],
)
def test_a_container_has_its_own_policy_where_it_is_heeded(
    container: dict[str, object], heeded: bool, policy: str | None
) -> None:
    assert restart_policy(container, "OnFailure", own=heeded) == policy


@pytest.mark.parametrize(
    "rules", ["Restart", ["Restart"], [None], [{"exitCodes": "0"}], [{"exitCodes": {"values": 1}}]]
)
def test_rules_that_are_not_understood_may_restart_a_container(rules: object) -> None:
    """They come from the manifests of static pods, too."""
    assert not is_over_at_zero({"restartPolicy": "Never", "restartPolicyRules": rules}, "Never", own=True)
