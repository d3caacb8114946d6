"""Tests which feature gates of a kubelet are on."""

import pytest

from nodeupgrade.kubelet.feature_gates import POD_RESOURCES_GATE, allocates_pod_resources
from nodeupgrade.kubelethash import KubeletVersion


@pytest.mark.parametrize(
    ("version", "gates", "allocates"),
    [
        ("v1.34.4", {POD_RESOURCES_GATE: True, "AllAlpha": True}, False),
        ("v1.35.4", {}, False),
        ("v1.35.4", {"AllBeta": True}, False),
        ("v1.35.4", {"AllAlpha": True}, True),
        ("v1.35.4", {POD_RESOURCES_GATE: True}, True),
        ("v1.36.3", {}, True),
        ("v1.36.3", {"AllBeta": False}, False),
        ("v1.37.2", {POD_RESOURCES_GATE: False}, False),
    ],
)
def test_a_gate_is_on_where_it_is_known_and_by_what_is_set(
    version: str, gates: dict[str, bool], allocates: bool
) -> None:
    assert allocates_pod_resources(KubeletVersion.parse(version), gates) is allocates
