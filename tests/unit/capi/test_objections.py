"""Tests which changes are left to Cluster API whatever the nodes are."""

from dataclasses import replace

import pytest

from nodeupgrade.capi.objections import objection_to
from nodeupgrade.capi.requests import Change

MINOR = Change(
    namespace="a", deployment="b", control_plane=False, current="v1.30.14", desired="v1.33.13", others=()
)  # fmt: skip


def test_a_change_of_the_version_alone_is_made_in_place() -> None:
    assert objection_to(MINOR) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace(MINOR, control_plane=True), "kubeadm upgrade"),
        (replace(MINOR, deployment=None), "MachineDeployment"),
        (replace(MINOR, others=("machineSet.failureDomain",)), "machineSet.failureDomain"),
        (replace(MINOR, current=None), "no version"),
        (replace(MINOR, desired=None), "no version"),
        (replace(MINOR, desired="v1.30.14"), "no version"),
        (replace(MINOR, desired="v1.29.1"), "older"),
        (replace(MINOR, desired="v1.99.0"), "1.99"),
        (replace(MINOR, current="v1.1.0"), "1.1"),
    ],
)
def test_anything_else_is_not(change: Change, said: str) -> None:
    assert said in (objection_to(change) or "")
