"""Decide whether a pod is over: its regular containers have ended, so that a kubelet ends whatever else runs in it.

Sidecars run for as long as the regular containers do. Then every kubelet (1.28+) stops them, and the sandbox.
"""

from collections.abc import Iterable

from nodeupgrade.cluster.pod_restart_rules import RuledContainer
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.node.plan.plan import CompletingPod
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, newest_of, restarting

ALWAYS, ON_FAILURE = "Always", "OnFailure"


def completing(pod: Pod) -> CompletingPod | None:
    """Return what the end of a pod depends on; ``None`` if it never ends by itself.

    From 1.34 on a container may have a restart policy of its own; its rules, which come first, are the plan's.
    """
    regular = [container for container in pod.containers if container.role is Role.REGULAR]
    policies = [str(container.spec.get("restartPolicy") or pod.restart_policy) for container in regular]
    if not regular or ALWAYS in policies:
        return None
    retried = (each.name for each, policy in zip(regular, policies, strict=True) if policy == ON_FAILURE)
    return CompletingPod(pod=pod.ref.uid, regular=tuple(each.name for each in regular), retried=tuple(retried))


def is_over(pod: CompletingPod, rules: Iterable[RuledContainer], listed: Iterable[ContainerInstance]) -> bool:
    """Report whether a pod is over, by the rules of containers and by what the runtime lists of them and of others."""
    own = {each.name: each for each in rules if each.pod == pod.pod}
    newest = newest_of(pod.pod, listed)
    if any(restarting(own.values(), pod.pod, newest.values())):
        return False
    return all(name in newest and _has_ended(newest[name], pod, own.get(name)) for name in pod.regular)


def _has_ended(container: ContainerInstance, pod: CompletingPod, own: RuledContainer | None) -> bool:
    if container.state is not ContainerState.EXITED or container.exit_code is None:
        return False
    if own is not None and own.rule_for(container.exit_code) is not None:
        return False
    return container.exit_code == 0 or container.name not in pod.retried
