"""Tests the checks of resizing in place where the feature gate goes on together with the new kubelet."""

from typing import Any

import pytest

from nodeupgrade.kubelet.feature_gates import POD_RESOURCES_GATE
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.kubelethash import hash_container
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.resizing import nothing_is_resized
from tests.builders.file_cases import given
from tests.builders.node_cases import LENIENT, RESIZED, V, pods
from tests.builders.sound import facts, instance, inventory, kubelet, readiness

GATE = "InPlacePodVerticalScaling"


def layout(*, on: bool | None) -> KubeletLayout:
    gates = b"" if on is None else b"featureGates: {%s: %s}" % (GATE.encode(), str(on).lower().encode())
    return read_layout(("--cgroup-driver=systemd",), gates)


def node(*, versions: tuple[str, str] = ("v1.34.2", "v1.35.1"), disk: bool | None = None, **fields: Any) -> NodeFacts:
    """A node with a container that a resize restarts, and its gate in the configuration on disk."""
    current, target = map(V, versions)
    known: dict[str, Any] = {
        "pods": pods(containers=[RESIZED]),
        "inventory": inventory(instance(hash_container(RESIZED, current))),
        "target": target,
        "kubelet": kubelet(current=current, staged_version=str(target)),
        "readiness": readiness(current=current, target=target, layout=layout(on=disk)),
    }
    return facts(**{**known, **fields})


OFF = Drift(gates={GATE: False})


@pytest.mark.parametrize(
    "found",
    [
        node(files=given(before=layout(on=False), after=layout(on=None), current=V("v1.34.2"))),
        node(drift=OFF),
        node(drift=OFF, versions=("v1.33.13", "v1.34.2")),
        node(drift=OFF, files=given(before=layout(on=None), after=layout(on=None), current=V("v1.34.2"))),
    ],
    ids=["by spec.files", "on disk since the kubelet's start", "on the way to 1.34", "as the kubelet reports"],
)
def test_a_gate_that_goes_on_makes_the_new_kubelet_the_first_to_act(found: NodeFacts) -> None:
    [finding] = nothing_is_resized(found)

    assert finding.subject == "default/web/nginx"


@pytest.mark.parametrize(
    "found",
    [
        node(),
        node(drift=Drift(gates={})),
        node(drift=Drift(gates={GATE: True})),
        node(drift=OFF, disk=False, versions=("v1.33.13", "v1.34.2")),
        node(drift=OFF, pods=pods(containers=[{**RESIZED, "resizePolicy": LENIENT}])),
    ],
    ids=["by default", "not set", "on", "it stays off", "nothing restarts"],
)
def test_a_gate_that_stays_as_it_is_does_no_harm(found: NodeFacts) -> None:
    assert not list(nothing_is_resized(found))


HANDED = {**RESIZED, "resources": {"requests": {"cpu": "100m"}}}
OF_POD = pods(containers=[HANDED], resources={"limits": {"cpu": "1"}})


@pytest.mark.parametrize("versions", [("v1.34.4", "v1.36.3"), ("v1.35.4", "v1.37.2"), ("v1.36.3", "v1.35.4")])
def test_a_limit_of_the_pod_that_only_one_kubelet_hands_down_restarts(versions: tuple[str, str]) -> None:
    found = node(versions=versions, pods=OF_POD)

    assert [finding.subject for finding in nothing_is_resized(found)] == ["default/web/nginx"]


def test_a_gate_that_is_off_hands_no_limit_down() -> None:
    off = read_layout(("--cgroup-driver=systemd", f"--feature-gates={POD_RESOURCES_GATE}=false"))
    current, target = V("v1.35.4"), V("v1.36.3")
    prepared = readiness(current=current, target=target, layout=off)

    assert not list(nothing_is_resized(node(versions=("v1.35.4", "v1.36.3"), pods=OF_POD, readiness=prepared)))
    assert not list(nothing_is_resized(node(versions=("v1.36.3", "v1.37.2"), pods=OF_POD)))
