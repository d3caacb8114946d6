"""Whether a node still meets the placement requirements of its pods.

The scheduler evaluates them once; a kubelet evaluates them again for every pod whenever it starts, and kills pods that
no longer fit (``GeneralPredicates`` and, from 1.24 on, NoExecute taints: kubernetes/kubernetes#101218). A mismatch that
was harmless until now becomes fatal with any kubelet restart, ours included.
"""

import math
from collections.abc import Iterable
from itertools import chain

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.upgrade.nodes import Requirement
from nodeupgrade.cluster.nodes import NodeView, Taint
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.text import integer

Term = tuple[list[Requirement], list[Requirement]]
"""What a term of a node affinity requires of labels, and of fields (only ``metadata.name`` exists)."""


def unmet_placement(pod: Pod, node: NodeView) -> str | None:
    """Describe the node selector or required node affinity that the node does not meet; None if it meets both."""
    for key, value in (pod.spec.get("nodeSelector") or {}).items():
        if (has := node.labels.get(key)) != value:
            shown = f"no label {key}" if has is None else f"{key}={has}"
            return f"its node selector requires {key}={value} and the node has {shown}"
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    if (required := affinity.get("requiredDuringSchedulingIgnoredDuringExecution")) is None:
        return None
    terms = [_term(each) for each in required.get("nodeSelectorTerms") or ()]
    if any(_meets_term(term, node) for term in terms):
        return None
    return f"its required node affinity ({_rendered(terms)}) does not match the labels of the node"


def untolerated_taint(pod: Pod, node: NodeView, *, compares: bool) -> Taint | None:
    """Return a NoExecute taint that the pod does not tolerate, or None; static pods are exempt.

    Args:
        pod: The pod.
        node: Its node.
        compares: Whether the operators Gt and Lt count (feature gate TaintTolerationComparisonOperators).
    """
    if pod.mirror:
        return None
    fatal = (taint for taint in node.taints if taint.effect == "NoExecute")
    return next((taint for taint in fatal if not _is_tolerated(pod, taint, compares)), None)


def _is_tolerated(pod: Pod, taint: Taint, compares: bool) -> bool:
    return any(_tolerates(each, taint) or (compares and _compares(each, taint)) for each in _tolerations(pod))


def tolerated_seconds(pod: Pod, taint: Taint) -> float:
    """Return for how long a pod stays on a node that gets a NoExecute taint: 0 if it does not tolerate it."""
    if pod.mirror:
        return math.inf
    toleration = next((each for each in _tolerations(pod) if _tolerates(each, taint)), None)
    if toleration is None:
        return 0
    seconds = toleration.get("tolerationSeconds")
    return math.inf if seconds is None else max(0, integer(seconds))


def _term(body: Json) -> Term:
    found = (body.get("matchExpressions") or (), body.get("matchFields") or ())
    expressions, fields = ([from_json(Requirement, each) for each in listed] for listed in found)
    return expressions, fields


def _meets_term(term: Term, node: NodeView) -> bool:
    """An empty term matches nothing (k8s.io/component-helpers/scheduling/corev1/nodeaffinity)."""
    by_kind = zip(term, (node.labels, {"metadata.name": node.name}), strict=True)
    return any(term) and all(each.met_by(values) for requirements, values in by_kind for each in requirements)


def _tolerations(pod: Pod) -> tuple[Json, ...]:
    return tuple(pod.spec.get("tolerations") or ())


def _tolerates(toleration: Json, taint: Taint) -> bool:
    key, operator, value, effect = (toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if effect not in {"", taint.effect} or key not in {"", taint.key}:
        return False
    return operator == "Exists" or (key != "" and operator in {"", "Equal"} and value == taint.value)


def _compares(toleration: Json, taint: Taint) -> bool:
    """Report whether a toleration for greater or lesser values matches; both values are integers."""
    if toleration.get("key") != taint.key or toleration.get("effect") not in {None, "", taint.effect}:
        return False
    try:
        given, least = int(taint.value), int(str(toleration.get("value")))
    except ValueError:
        return False
    return {"Gt": given > least, "Lt": given < least}.get(str(toleration.get("operator")), False)


def _rendered(terms: Iterable[Term]) -> str:
    def words(requirement: Requirement) -> str:
        return " ".join(filter(None, [requirement.key, requirement.operator, ",".join(requirement.values)]))

    return " or ".join(" and ".join(map(words, chain(*term))) or "nothing" for term in terms)
