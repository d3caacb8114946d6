"""Decide whether a pod is over: its regular containers have ended, so that a kubelet ends whatever else runs in it.

Sidecars run for as long as the regular containers do. Then every kubelet (1.28+) stops them, and the sandbox.
"""

from collections.abc import Iterable

from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState
from nodeupgrade.domain.node.plan import CompletingPod
from nodeupgrade.domain.pods import Pod, PodContainer, Role

ALWAYS, ON_FAILURE = "Always", "OnFailure"


def completing(pod: Pod) -> CompletingPod | None:
    """Return what the end of a pod depends on; ``None`` if it never ends by itself.

    From 1.34 on a container may have a restart policy of its own, and rules, which depend on its exit code: then
    nothing is assumed.
    """
    regular = [container for container in pod.containers if container.role is Role.REGULAR]
    policies = [_policy(pod, container) for container in regular]
    if not regular or ALWAYS in policies:
        return None
    retried = (each.name for each, policy in zip(regular, policies, strict=True) if policy == ON_FAILURE)
    return CompletingPod(pod=pod.ref.uid, regular=tuple(each.name for each in regular), retried=tuple(retried))


def is_over(pod: CompletingPod, listed: Iterable[ContainerInstance]) -> bool:
    """Report whether a pod is over, according to the runtime's record.

    Args:
        listed: the containers that the runtime lists, with their exit codes; those of other pods are ignored.
    """
    newest: dict[str, ContainerInstance] = {}
    for each in sorted(listed, key=lambda c: c.created_at):
        if each.pod.uid == pod.pod:
            newest[each.name] = each
    return all(name in newest and _has_ended(newest[name], retried=name in pod.retried) for name in pod.regular)


def _has_ended(container: ContainerInstance, *, retried: bool) -> bool:
    ended = container.state is ContainerState.EXITED and container.exit_code is not None
    return ended and (container.exit_code == 0 or not retried)


def _policy(pod: Pod, container: PodContainer) -> str:
    if container.spec.get("restartPolicyRules"):
        return ALWAYS
    return str(container.spec.get("restartPolicy") or pod.restart_policy)
