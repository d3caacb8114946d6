"""Checks of placement: does the node meet what pods ask for by selector, affinity and toleration?"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.placement import unmet_placement, untolerated_taint
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.node.checks.facts import Admission, NodeFacts
from nodeupgrade.text import trimmed

_SYSTEM = frozenset({"kubernetes.io/os", "beta.kubernetes.io/os"})
_ARCHITECTURE = frozenset({"kubernetes.io/arch", "beta.kubernetes.io/arch"})
_OWN = frozenset({"kubernetes.io/hostname"}) | _SYSTEM | _ARCHITECTURE
_OF_THE_CLOUD = frozenset(
    {
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    }
)


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.LABELS_READ_TOO_EARLY, known_defects.LABELS_READ_TOO_EARLY)
def labels_are_read_first(facts: Admission) -> Iterator[Found]:
    """The new kubelet reads the Node before it admits pods, or its own labels meet what they ask for.

    Only the new one is judged: it is a race that is seldom lost, and a later patch release is the way around it.
    """
    defect = known_defects.LABELS_READ_TOO_EARLY
    if not defect.affects(facts.target):
        return
    node = view_node(dict(facts.node))
    early = replace(node, labels=_own_labels(facts, node.labels))
    for pod in facts.admitted():
        if unmet_placement(pod, node) is None and (unmet := unmet_placement(pod, early)) is not None:
            detail = (
                f"kubelet {facts.target} may admit it before it has read the Node, by the labels that it sets itself "
                f"({defect.reference}): {unmet}; choose a later patch release, or set the label with --node-labels, too"
            )
            yield pod, detail


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.OPERATING_SYSTEM_DIFFERS)
def labels_tell_the_platform(facts: Admission) -> Iterator[Found]:
    """The Node's labels of operating system and architecture are true; a kubelet that starts puts them right."""
    node = view_node(dict(facts.node))
    _, _, architecture = node.platform.partition("-")
    true = {**dict.fromkeys(_SYSTEM, "linux"), **(dict.fromkeys(_ARCHITECTURE, architecture) if architecture else {})}
    wrong = {key: value for key, value in true.items() if node.labels.get(key, value) != value}
    if not wrong:
        return
    corrected = replace(node, labels={**node.labels, **wrong})
    for pod in facts.admitted():
        if unmet_placement(pod, node) is None and (unmet := unmet_placement(pod, corrected)) is not None:
            yield pod, f"a kubelet that starts corrects the labels of its platform, and would kill the pod: {unmet}"


def _own_labels(facts: Admission, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the kubelet gives to its Node by itself."""
    asks_the_cloud = facts.settings.flag("cloud-provider") not in {None, "", "external"}
    known = _OWN | _OF_THE_CLOUD if asks_the_cloud else _OWN
    own = {key: value for key, value in labels.items() if key in known}
    for pair in (pair for flag in facts.settings.flags("node-labels") for pair in flag.split(",")):
        key, _, value = trimmed(pair).partition("=")
        own[key] = value
    return own


@check(Reason.NODE_AFFINITY_NOT_MET, Hazard.PLACEMENT_NOT_MET)
def placements_are_met(facts: NodeFacts) -> Iterator[Found]:
    """The node meets the node selector and the required node affinity of every running pod."""
    node = view_node(dict(facts.node))
    for pod in facts.running_pods():
        if (unmet := unmet_placement(pod, node)) is not None:
            yield pod, f"{unmet}, so any kubelet start would kill it"


@check(Reason.TAINT_NOT_TOLERATED, Hazard.TAINT_NOT_TOLERATED, history.TAINTS_CHECKED, history.TAINTS_COMPARED)
def taints_are_tolerated(facts: NodeFacts) -> Iterator[Found]:
    """Every running pod tolerates the node's NoExecute taints; static pods need not."""
    versions = [version for version in (facts.current, facts.target) if version is not None]
    if not any(map(history.TAINTS_CHECKED.applies_to, versions)):
        return
    node, gates = view_node(dict(facts.node)), facts.admission.gates
    on = gates.get("TaintTolerationComparisonOperators", gates.get("AllAlpha", False))
    compares = on and all(map(history.TAINTS_COMPARED.applies_to, versions))
    for pod in facts.running_pods():
        exempt = pod.from_manifest or pod.terminating
        if not exempt and (taint := untolerated_taint(pod, node, compares=compares)):
            yield pod, f"it does not tolerate the taint {taint.key}:{taint.effect}, so any kubelet start would kill it"
