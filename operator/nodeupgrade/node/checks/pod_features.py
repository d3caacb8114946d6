"""Checks of features that pods need: would a kubelet that starts reject a pod because one is turned off?"""

from collections.abc import Callable, Iterator, Mapping

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import is_on
from nodeupgrade.kubelethash import MinorChange
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.pod_lifecycle import RESTART_ALL

_POD_RESOURCES = "PodLevelResources"


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.POD_FEATURE_OFF, history.POD_RESOURCES_REJECTED, history.FEATURES_DECLARED
)
def features_of_pods_are_on(facts: Admission) -> Iterator[Found]:
    """No feature gate is turned off that a pod needs: kubelets reject a pod that they cannot run as it asks.

    What a runtime has to support as well, such as options of bind mounts, is not known before the kubelet has started.
    """
    declares = facts.gates.get("NodeDeclaredFeatures") is not False
    for pod in facts.admitted():
        if _is_off(facts, _POD_RESOURCES, history.POD_RESOURCES_REJECTED) and _has_resources(pod):
            yield pod, _detail("resources of its own", _POD_RESOURCES, "PodLevelResourcesNotSupported")
        for gate, (what, needs, by_default) in _DECLARED.items():
            off = declares and _is_off(facts, gate, history.FEATURES_DECLARED, by_default=by_default)
            if off and needs(pod):
                yield pod, _detail(what, gate, "PodFeatureUnsupported")


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.POD_FEATURE_OFF, history.PODS_VALIDATED)
def pods_are_not_validated(facts: Admission) -> Iterator[Found]:
    """No pod came to a kubelet that does not validate pods before one that does: what that rejects is not foreseen."""
    if history.PODS_VALIDATED.begins_between(facts.current, facts.target):
        for pod in facts.admitted():
            yield (
                pod,
                f"kubelet {facts.target} validates it, and ends it if it has what came later; choose a later version",
            )


def _is_off(facts: Admission, gate: str, rejected: MinorChange, *, by_default: bool = True) -> bool:
    off = not is_on(facts.gates, gate, by_default=by_default)
    return off and any(map(rejected.applies_to, facts.starting))


def _detail(what: str, gate: str, reason: str) -> str:
    return f"it has {what}, and the feature gate {gate} is off, so it would be killed ({reason}); turn the gate on"


def _has_resources(pod: Pod) -> bool:
    resources = pod.spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _restarts_as_a_whole(pod: Pod) -> bool:
    rules = (rule for container in pod.containers for rule in container.spec.get("restartPolicyRules") or ())
    return any(rule.get("action") == RESTART_ALL for rule in rules)


def _has_user_namespace_on_host_network(pod: Pod) -> bool:
    return pod.spec.get("hostUsers") is False and pod.spec.get("hostNetwork") is True


_DECLARED: Mapping[str, tuple[str, Callable[[Pod], bool], bool]] = {
    "RestartAllContainersOnContainerExits": (f"a rule with the action {RESTART_ALL}", _restarts_as_a_whole, True),
    "UserNamespacesHostNetworkSupport": (
        "hostNetwork with hostUsers: false", _has_user_namespace_on_host_network, False,
    ),
}  # fmt: skip
"""By feature gate: what a pod needs it for, as k8s.io/component-helpers infers it, and whether it is on by default."""
