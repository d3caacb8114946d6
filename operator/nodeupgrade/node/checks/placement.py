"""Checks of placement: does the node meet what pods ask for by selector, affinity and toleration?"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.cluster.placement import unmet_placement, untolerated_taint
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.feature_gates import is_on
from nodeupgrade.kubelet.flags import FALSE
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Admission, NodeFacts
from nodeupgrade.text import trimmed

_HOSTNAME = "kubernetes.io/hostname"
_SYSTEM = ("kubernetes.io/os", "beta.kubernetes.io/os")
_ARCHITECTURE = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
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
    early = replace(node, labels=_own_labels(facts, node))
    for pod in facts.admitted():
        if unmet_placement(pod, node) is None and (unmet := unmet_placement(pod, early)) is not None:
            detail = (
                f"kubelet {facts.target} may admit it before it has read the Node, by the labels that it sets itself "
                f"({defect.reference}): {unmet}; choose a later patch release, or set the label with --node-labels, too"
            )
            yield pod, detail


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    Hazard.OPERATING_SYSTEM_DIFFERS,
    Hazard.LABELS_PUT_BACK,
    *history.LABELS_PUT_BACK.values(),
)
def labels_are_kept(facts: Admission) -> Iterator[Found]:
    """No pod depends on a label of the Node to which a kubelet that starts gives another value.

    A kubelet that registers its Node sets again, of the labels in ``history.LABELS_PUT_BACK``, those that it knows by
    itself: by the host, or by --node-labels. Other labels of that flag are set once, when the Node is created.
    """
    if facts.settings.text("register-node", "registerNode", "true") in FALSE:
        return
    node = view_node(dict(facts.node))
    own = {key: value for key, value in _own_labels(facts, node).items() if _is_put_back(key, facts.starting)}
    changed = sorted(key for key, value in own.items() if node.labels.get(key, "") != value)
    if not changed:
        return
    labels = {key: value for key, value in {**node.labels, **own}.items() if value or key not in own}
    for pod in facts.admitted():
        unmet = unmet_placement(pod, replace(node, labels=labels))
        if unmet is not None and unmet_placement(pod, node) is None:
            detail = (
                f"a kubelet that starts sets labels of its Node again ({', '.join(changed)}), and would kill the pod: "
                f"{unmet}; have the host or --node-labels say the same as the Node first"
            )
            yield pod, detail


def _is_put_back(label: str, kubelets: Iterable[KubeletVersion]) -> bool:
    change = history.LABELS_PUT_BACK.get(label)
    return change is not None and any(map(change.applies_to, kubelets))


def _own_labels(facts: Admission, node: NodeView) -> dict[str, str]:
    """Return the labels that a kubelet gives to its Node by itself.

    What is not known, such as what a built-in cloud provider says, is taken from the Node: the running kubelet has
    written it there.
    """
    settings = facts.settings
    _, _, architecture = node.platform.partition("-")
    known = {_HOSTNAME: settings.hostname(facts.hostname), **dict.fromkeys(_ARCHITECTURE, architecture)}
    own = dict.fromkeys(_SYSTEM, "linux")
    own.update({key: value for key in known if (value := known[key] or node.labels.get(key))})
    for pair in (pair for flag in settings.flags("node-labels") for pair in flag.split(",") if pair):
        key, _, value = pair.partition("=")
        own[trimmed(key)] = trimmed(value)
    if settings.flag("cloud-provider") not in {None, "", "external"}:
        own.update({key: value for key, value in node.labels.items() if key in _OF_THE_CLOUD})
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
    on = is_on(gates, "TaintTolerationComparisonOperators", by_default=False)
    compares = on and all(map(history.TAINTS_COMPARED.applies_to, versions))
    for pod in facts.running_pods():
        exempt = pod.from_manifest or pod.terminating
        if not exempt and (taint := untolerated_taint(pod, node, compares=compares)):
            yield pod, f"it does not tolerate the taint {taint.key}:{taint.effect}, so any kubelet start would kill it"
