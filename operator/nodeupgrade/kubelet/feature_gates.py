"""Feature gates of kubelets: whether one is on, set or not."""

from collections.abc import Mapping

from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

RESIZE_GATE = "InPlacePodVerticalScaling"
POD_RESOURCES_GATE = "InPlacePodLevelResourcesVerticalScaling"


def is_on(gates: Mapping[str, bool], gate: str, *, by_default: bool) -> bool:
    """Report whether a gate that may be set is on: one that is on by default is beta, another one alpha."""
    return gates.get(gate, gates.get("AllBeta", True) if by_default else gates.get("AllAlpha", False))


def allocates_pod_resources(kubelet: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    """Report whether a kubelet with these gates allocates resources of pods themselves, and records what it did."""
    by_default = history.POD_RESOURCES_ALLOCATED.applies_to(kubelet)
    known = history.POD_RESOURCES_RESIZED.applies_to(kubelet)
    return known and is_on(gates, POD_RESOURCES_GATE, by_default=by_default)
