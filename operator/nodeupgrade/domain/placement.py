"""Whether a node still meets the placement requirements of its pods.

The scheduler evaluates them once; a kubelet evaluates them again for every pod whenever it starts, and kills pods that
no longer fit (``GeneralPredicates`` and, from 1.24 on, NoExecute taints: kubernetes/kubernetes#101218). A mismatch that
was harmless until now becomes fatal with any kubelet restart, ours included.
"""

import math
from collections.abc import Mapping

from nodeupgrade.api.upgrade.nodes import LabelSelector, Requirement
from nodeupgrade.domain.nodes import NodeView, Taint
from nodeupgrade.domain.pods import NodeSelectorTerm, Pod, Toleration


def matches_labels(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Report whether a label selector matches; an empty one matches everything."""
    expected = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in expected) and all(
        meets(requirement, labels) for requirement in selector.match_expressions
    )


def meets(requirement: Requirement, values: Mapping[str, str]) -> bool:
    """Report whether labels or fields meet one requirement; an unknown operator is never met."""
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compare(value, requirement) > 0
        case "Lt":
            return _compare(value, requirement) < 0
        case _:
            return False


def unmet_placement(pod: Pod, node: NodeView) -> str | None:
    """Describe the node selector or required node affinity that the node does not meet; None if it meets both."""
    for key, value in (pod.spec.get("nodeSelector") or {}).items():
        if (has := node.labels.get(key)) != value:
            shown = f"no label {key}" if has is None else f"{key}={has}"
            return f"its node selector wants {key}={value} and the node has {shown}"
    if pod.affinity is None or any(_meets_term(term, node) for term in pod.affinity):
        return None
    return f"its required node affinity ({_rendered(pod.affinity)}) matches no label of the node"


def untolerated_taint(pod: Pod, node: NodeView) -> Taint | None:
    """Return a NoExecute taint that the pod does not tolerate, or None; static pods are exempt."""
    if pod.mirror:
        return None
    fatal = (taint for taint in node.taints if taint.effect == "NoExecute")
    return next((taint for taint in fatal if not any(_tolerates(t, taint) for t in pod.tolerations)), None)


def tolerated_seconds(pod: Pod, taint: Taint) -> float:
    """Return for how long a pod stays on a node that gets a NoExecute taint: 0 if it does not tolerate it."""
    if pod.mirror:
        return math.inf
    toleration = next((each for each in pod.tolerations if _tolerates(each, taint)), None)
    if toleration is None:
        return 0
    return math.inf if toleration.toleration_seconds is None else max(0, toleration.toleration_seconds)


def _meets_term(term: NodeSelectorTerm, node: NodeView) -> bool:
    """An empty term matches nothing (k8s.io/component-helpers/scheduling/corev1/nodeaffinity)."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(meets(r, node.labels) for r in term.match_expressions) and all(
        meets(r, fields) for r in term.match_fields
    )


def _compare(value: str | None, requirement: Requirement) -> int:
    """Compare as Gt and Lt do; if a side is not an integer, return 0, which meets neither."""
    try:
        have, want = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return 0
    return (have > want) - (have < want)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.key != "" and toleration.operator in {"", "Equal"} and toleration.value == taint.value


def _rendered(terms: tuple[NodeSelectorTerm, ...]) -> str:
    def words(requirement: Requirement) -> str:
        return " ".join([requirement.key, requirement.operator, ",".join(requirement.values)]).strip()

    return " or ".join(
        " and ".join(map(words, (*term.match_expressions, *term.match_fields))) or "nothing" for term in terms
    )
