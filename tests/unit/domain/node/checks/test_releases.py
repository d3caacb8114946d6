"""Releases with a known defect: each matters at its first and last patch, and only to a node that has what it needs."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.known_defects import KNOWN_BAD
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Surroundings
from nodeupgrade.node.checks.kubelet import release_harms_no_pod, release_has_no_known_flaw
from tests.unit.domain.node.checks.sound import SPEC, facts, pod, readiness

V = KubeletVersion.parse
BOUGHT = {"cpu": "1", "memory": "1Gi"}
GUARANTEED = {**SPEC, "resources": {"limits": BOUGHT, "requests": BOUGHT}}


def pods(phase: str = "Running", **spec: Any) -> tuple[Any, ...]:
    return (parse_pod({**pod(**spec), "status": {"phase": phase}}),)


STATIC = readiness(layout=read_layout((), b"cpuManagerPolicy: static"))
SEVERAL = pods(containers=[GUARANTEED, {**GUARANTEED, "name": "side"}])
CONCERNED: dict[str, dict[str, Any]] = {
    "pods that ended count": {"pods": pods("Succeeded")},
    "managers forget": {"pods": SEVERAL, "readiness": STATIC},
    "volumes are reconstructed wrongly": {
        "pods": pods(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    },
    "status is not reported": {},
    "no start on ZFS": {"around": Surroundings(filesystem="zfs")},
}
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


def targets() -> list[tuple[str, KubeletVersion]]:
    """Every defect with the first release that has it."""
    return [(name, V(f"v1.{first[0]}.{first[1]}")) for name, d in KNOWN_BAD.items() for first, _ in d.releases[:1]]


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
