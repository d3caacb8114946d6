"""Whether a node still meets the placement requirements of its pods.

The scheduler evaluates them once; a kubelet evaluates them again for every pod whenever it starts, and kills pods that
no longer fit (``GeneralPredicates`` and, from 1.24 on, NoExecute taints: kubernetes/kubernetes#101218). A mismatch that
was harmless until now becomes fatal with any kubelet restart, ours included.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import chain

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.upgrade.nodes import LabelSelector, Requirement
from nodeupgrade.cluster.nodes import NodeView, Taint
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.text import integer, number

Term = tuple[list[Requirement], list[Requirement]]
"""What a term of a node affinity requires of labels, and of fields (only ``metadata.name`` exists)."""


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
            return f"its node selector requires {key}={value} and the node has {shown}"
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    if (required := affinity.get("requiredDuringSchedulingIgnoredDuringExecution")) is None:
        return None
    terms = [_term(each) for each in required.get("nodeSelectorTerms") or ()]
    if any(_meets_term(term, node) for term in terms):
        return None
    return f"its required node affinity ({_rendered(terms)}) does not match the labels of the node"


def untolerated_taint(pod: Pod, node: NodeView) -> Taint | None:
    """Return a NoExecute taint that the pod does not tolerate, or None; static pods are exempt."""
    if pod.mirror:
        return None
    fatal = (taint for taint in node.taints if taint.effect == "NoExecute")
    return next((taint for taint in fatal if not any(_tolerates(t, taint) for t in _tolerations(pod))), None)


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
    return any(term) and all(meets(each, values) for requirements, values in by_kind for each in requirements)


def _compare(value: str | None, requirement: Requirement) -> int:
    """Compare as Gt and Lt do; if a side is not an integer, return 0, which meets neither."""
    try:
        have, want = _integer(value or ""), _integer(requirement.values[0])
    except IndexError:
        return 0
    return 0 if have is None or want is None else (have > want) - (have < want)


def _integer(text: str) -> int | None:
    """Read an integer as strconv.ParseInt does."""
    found = number(text[1:] if text[:1] in {"+", "-"} else text)
    return -found if found is not None and text.startswith("-") else found


def _tolerations(pod: Pod) -> tuple[Json, ...]:
    return tuple(pod.spec.get("tolerations") or ())


def _tolerates(toleration: Json, taint: Taint) -> bool:
    key, operator, value, effect = (toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if effect not in {"", taint.effect} or key not in {"", taint.key}:
        return False
    return operator == "Exists" or (key != "" and operator in {"", "Equal"} and value == taint.value)


def _rendered(terms: Iterable[Term]) -> str:
    def words(requirement: Requirement) -> str:
        return " ".join(filter(None, [requirement.key, requirement.operator, ",".join(requirement.values)]))

    return " or ".join(" and ".join(map(words, chain(*term))) or "nothing" for term in terms)
