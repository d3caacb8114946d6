"""Checks of the node's labels: would a kubelet that starts judge the placement of pods by other labels than today's?"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.facts import Admission, rejected
from nodeupgrade.domain.nodes import view_node
from nodeupgrade.domain.placement import unmet_placement
from nodeupgrade.kubelet import history

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


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(history.LABELS_READ_TOO_EARLY,),
    covers=(Hazard.LABELS_READ_TOO_EARLY,),
)
def labels_are_read_first(facts: Admission) -> Iterator[Finding]:
    """The new kubelet reads the Node before it admits pods, or its own labels meet what they ask for.

    Only the new one is judged: it is a race that is seldom lost, and a later patch release is the way around it.
    """
    defect = history.LABELS_READ_TOO_EARLY
    if not defect.affects(facts.target):
        return
    node = view_node(dict(facts.node))
    early = replace(node, labels=_own_labels(facts, node.labels))
    for pod in facts.admitted():
        if unmet_placement(pod, node) is None and (unmet := unmet_placement(pod, early)) is not None:
            yield rejected(
                pod,
                f"kubelet {facts.target} may admit it before it has read the Node, by the labels that it sets itself "
                f"({defect.reference}): {unmet}; choose a later patch release, or set the label by --node-labels too",
            )


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, covers=(Hazard.OPERATING_SYSTEM_DIFFERS,))
def labels_tell_the_platform(facts: Admission) -> Iterator[Finding]:
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
            yield rejected(
                pod, f"a kubelet that starts puts the labels of its platform right, and would kill the pod: {unmet}"
            )


def _own_labels(facts: Admission, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the kubelet gives to its Node by itself."""
    asks_the_cloud = facts.settings.flag("cloud-provider") not in {None, "", "external"}
    known = _OWN | _OF_THE_CLOUD if asks_the_cloud else _OWN
    own = {key: value for key, value in labels.items() if key in known}
    for pair in (pair for flag in facts.settings.flags("node-labels") for pair in flag.split(",")):
        key, _, value = pair.strip().partition("=")
        own[key] = value
    return own
