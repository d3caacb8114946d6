"""Tests the checks of resizing in place where the feature gate goes on together with the new kubelet."""

from typing import Any

import pytest

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
