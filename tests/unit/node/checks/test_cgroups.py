"""Tests the checks of cgroups."""

from dataclasses import replace

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.feature_gates import POD_RESOURCES_GATE
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.node.checks.cgroups import pods_keep_their_cgroup
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.facts import NodeFacts
from tests.builders.node_cases import V, without_status
from tests.builders.sound import SPEC, facts, kubelet, readiness
from tests.builders.surroundings_cases import CHECKS, around, group


def test_a_pod_whose_cgroup_is_incomplete_is_named() -> None:
    (finding,) = ask(CHECKS, around(cgroups=group(incomplete={"default/web": ("cpuset",)})))

    assert finding.subject == "default/web"
    assert (finding.reason, "delete the pod first" in finding.message) == (Reason.POD_CGROUP_WOULD_CHANGE, True)


def test_a_pod_that_ended_meanwhile_is_a_reason_that_passes() -> None:
    lost = group(incomplete={"default/web": ("cpuset",)}, ended=frozenset({"default/web"}))

    assert [finding.reason for finding in ask(CHECKS, around(cgroups=lost))] == [Reason.POD_IN_TRANSITION]


BOTH = {"cpu": "1", "memory": "1Gi"}
OF_POD = {"limits": BOTH, "requests": BOTH}
OFF, ON = (read_layout((f"--feature-gates={POD_RESOURCES_GATE}={each}",)) for each in ("false", "true"))


def static(
    current: str, target: str, *, spec: Json | None = None, layout: KubeletLayout | None = None, manifest: bool = True
) -> NodeFacts:
    """A node with a pod that has resources of its own."""
    now, then = V(current), V(target)
    (pod,) = without_status(**(spec or {"containers": [{**SPEC, "resources": {}}], "resources": OF_POD}))
    served = parse_pod({**pod.raw, "status": {"qosClass": "Guaranteed"}})
    return facts(
        pods=(replace(pod, from_manifest=True) if manifest else served,),
        target=then,
        allow_downgrade=True,
        kubelet=kubelet(current=now, staged_version=target),
        readiness=readiness(current=now, target=then, **({} if layout is None else {"layout": layout})),
        drift=Drift(gates={}),
    )


@pytest.mark.parametrize("current", ["v1.34.4", "v1.35.4"])
@pytest.mark.parametrize("target", ["v1.36.3", "v1.37.2"])
def test_a_static_pod_whose_own_resources_the_new_kubelet_forgets_would_be_killed(current: str, target: str) -> None:
    (finding,) = pods_keep_their_cgroup(static(current, target))

    assert finding.forbids
    assert f"turn the feature gate {POD_RESOURCES_GATE} off" in finding.detail


@pytest.mark.parametrize(
    "found",
    [
        static("v1.35.4", "v1.36.3", manifest=False),
        static("v1.35.4", "v1.36.3", layout=OFF),
        static("v1.35.4", "v1.36.3", spec={"containers": [SPEC], "resources": {"requests": {"cpu": "1"}}}),
        static("v1.34.4", "v1.35.4"),
        static("v1.36.3", "v1.37.2"),
        static("v1.36.3", "v1.35.4"),
    ],
    ids=["of the API", "the gate is off", "the class stays", "not yet", "no longer", "the way back"],
)
def test_a_pod_whose_class_stays_keeps_its_cgroup(found: NodeFacts) -> None:
    assert not list(pods_keep_their_cgroup(found))


def test_a_gate_that_goes_on_makes_the_kubelet_forget_too() -> None:
    assert list(pods_keep_their_cgroup(static("v1.34.4", "v1.35.4", layout=ON)))
    assert list(
        pods_keep_their_cgroup(replace(static("v1.36.3", "v1.37.2"), drift=Drift(gates={POD_RESOURCES_GATE: False})))
    )


def test_a_kubelet_without_a_record_leaves_none_from_which_resources_could_be_missing() -> None:
    found = replace(static("v1.34.4", "v1.36.3"), drift=Drift(gates={"InPlacePodVerticalScaling": False}))
    assert not list(pods_keep_their_cgroup(found))
