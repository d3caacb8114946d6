"""Tests the checks of the kubelet, including releases with known defects."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.known_defects import KNOWN_BAD
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Surroundings
from nodeupgrade.node.checks.kubelet import release_harms_no_pod, release_has_no_known_flaw, runtime_is_understood
from tests.builders.release_cases import CONCERNED, SEVERAL, STATIC, V, pods
from tests.builders.sound import SPEC, facts, readiness


@pytest.mark.parametrize(("target", "refused"), [("v1.23.17", False), ("v1.24.0", True), ("v1.33.13", True)])
@pytest.mark.parametrize("built_in", [False, True])
def test_a_kubelet_that_talks_to_docker_itself_goes_no_further_than_1_23(
    target: str, refused: bool, built_in: bool
) -> None:
    found = facts(readiness=readiness(layout=read_layout((), runtime="docker" if built_in else "containerd")))
    found = replace(found, spec=replace(found.spec, to_version=target))

    findings = [f for f in runtime_is_understood(found) if "no dockershim" in f.detail]

    assert [f.reason for f in findings] == [Reason.UNSUPPORTED_RUNTIME] * (refused and built_in)
    assert all("Drain it and move it to another runtime" in f.detail for f in findings)


UNCONCERNED: dict[str, dict[str, Any]] = {
    "pods that ended count": {},
    "managers forget": {"pods": SEVERAL},
    "volumes are reconstructed wrongly": {"pods": pods(volumes=[{"name": "tmp", "emptyDir": {}}])},
    "no start on ZFS": {"around": Surroundings(filesystem="ext4")},
}


def found(target: KubeletVersion, given: dict[str, Any]) -> list[tuple[bool, Reason, str]]:
    seen = facts(target=target, **given)
    return [
        (f.forbids, f.reason, f.detail) for one in (release_harms_no_pod, release_has_no_known_flaw) for f in one(seen)
    ]


def test_every_known_defect_is_tried() -> None:
    assert CONCERNED.keys() == KNOWN_BAD.keys()


@pytest.mark.parametrize("name", KNOWN_BAD)
def test_a_defect_is_named_at_its_bounds(name: str) -> None:
    defect = KNOWN_BAD[name]
    for first, last in defect.releases:
        assert last is not None
        for minor, patch in (first, last):
            told = [f for f in found(V(f"v1.{minor}.{patch}"), CONCERNED[name]) if defect.reference in f[2]]
            assert [f[:2] for f in told] == [(not defect.only_warns, Reason.KUBELET_DEFECT)]
            assert f"fixed in 1.{last[0]}.{last[1] + 1}" in told[0][2]
        assert found(V(f"v1.{last[0]}.{last[1] + 1}"), CONCERNED[name]) == []


@pytest.mark.parametrize("name", UNCONCERNED)
def test_a_node_without_what_it_needs_is_let_pass(name: str) -> None:
    defect = KNOWN_BAD[name]
    (minor, patch), _ = defect.releases[0]

    assert [f for f in found(V(f"v1.{minor}.{patch}"), UNCONCERNED[name]) if defect.reference in f[2]] == []


def test_a_pod_of_an_unknown_class_counts_as_guaranteed() -> None:
    damaged = {**SPEC, "resources": {"limits": {"cpu": "much"}}}
    seen = facts(target=V("v1.22.0"), readiness=STATIC, pods=pods(containers=[damaged, {**damaged, "name": "side"}]))

    assert any("103979" in f.detail for f in release_harms_no_pod(seen))


parsed = KubeletVersion.parse


@pytest.mark.parametrize(
    ("target", "driver", "told"),
    [("v1.37.2", None, 0), ("v1.38.0", None, 1), ("v1.38.0", "systemd", 0), ("v1.38.0", "cgroupfs", 0)],
)
def test_a_runtime_that_reports_no_cgroup_driver_is_not_enough_from_1_38_on(
    target: str, driver: str | None, told: int
) -> None:
    seen = facts(target=parsed(target))

    found = ask((runtime_is_understood,), replace(seen, runtime=replace(seen.runtime, cgroup_driver=driver)))

    assert [(each.reason, each.forbids) for each in found] == [(Reason.UNSUPPORTED_RUNTIME, True)] * told
    assert all("RuntimeConfig" in each.detail for each in found)
