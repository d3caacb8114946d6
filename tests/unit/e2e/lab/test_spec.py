"""Tests which lab specs are rejected."""

import pytest

from e2e.lab.errors import LabError
from e2e.lab.machines.machine import Machine
from e2e.lab.spec import LabSpec


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 0},
        {"runtime": "docker"},
        {"cluster": "kind"},
        {"nodes": 2, "control_planes": 3},
        {"control_planes": 0},
        {"cluster": "plain", "nodes": 3, "control_planes": 3},
    ],
)
def test_what_no_cluster_can_be_made_of_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LabError, match="kubeadm"):
        LabSpec(**{"cluster": "kubeadm", **change})  # type: ignore[arg-type]


def test_machines_need_containerd_in_a_plain_cluster() -> None:
    assert LabSpec(machine="vm").default_machine == Machine()
    assert LabSpec().default_machine is None
    for wrong in ({"cluster": "kubeadm"}, {"runtime": "docker"}):
        with pytest.raises(LabError, match="virtual machines"):
            LabSpec(machine="vm", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Lab", "a/b", "../x", "a.b", "-a", "a--b", "1a", "x" * 31])
def test_names_that_would_not_fit_everywhere_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="as a name"):
        LabSpec(name=name)
