"""Restart policies of single containers (KEP-5307): which kubelets heed them, and which policy a container has.

Sidecars are another matter: kubelets from 1.28 on restart them whatever the policy of their pod is.
"""

from collections.abc import Mapping

from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import is_on
from nodeupgrade.kubelethash import KubeletVersion

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
_GATE = "ContainerRestartRules"


def heeds_containers(kubelet: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    """Report whether a kubelet with these feature gates heeds the restart policies of single containers."""
    by_default = history.CONTAINER_POLICIES_BY_DEFAULT.applies_to(kubelet)
    return history.CONTAINER_POLICIES.applies_to(kubelet) and is_on(gates, _GATE, by_default=by_default)


def restart_policy(container: Mapping[str, object], of_pod: str, *, own: bool) -> str | None:
    """Return the policy by which a regular or plain init container is restarted; ``None`` if rules decide.

    Args:
        container: its spec.
        of_pod: the policy of its pod.
        own: whether a policy of its own is heeded.
    """
    policy = container.get("restartPolicy")
    if not own or not policy:
        return of_pod
    return None if container.get("restartPolicyRules") else str(policy)


def is_over_at_zero(container: Mapping[str, object], of_pod: str, *, own: bool) -> bool:
    """Report whether a regular container is not started again once it has exited with code 0, as restart_policy()."""
    policy = restart_policy(container, of_pod, own=own)
    if policy is not None:
        return policy != ALWAYS
    rules = container.get("restartPolicyRules")
    ruled = not isinstance(rules, list) or any(map(_restarts_at_zero, rules))
    return container.get("restartPolicy") != ALWAYS and not ruled


def _restarts_at_zero(rule: object) -> bool:
    """Report whether a rule applies to exit code 0; one that is not understood does."""
    match rule:
        case {"exitCodes": {"operator": "In", "values": list(values)}}:
            return 0 in values
        case {"exitCodes": {"operator": "NotIn", "values": list(values)}}:
            return 0 not in values
        case _:
            return True
