"""Decide whether a pod is over: its regular containers have ended, so that a kubelet ends whatever else runs in it.

Sidecars run for as long as the regular containers do. Then every kubelet (1.28+) stops them, and the sandbox.
"""

from collections.abc import Iterable

from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.kubelet.restart_policies import ALWAYS, NEVER, ON_FAILURE, restart_policy
from nodeupgrade.node.plan.plan import CompletingPod
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState


def completing(pod: Pod) -> CompletingPod | None:
    """Return what the end of a pod depends on; ``None`` if it never ends by itself, or if that is not known.

    From 1.34 on a container may have a restart policy of its own, and rules for its exit codes, which come first.
    """
    regular = [container for container in pod.containers if container.role is Role.REGULAR]
    policies = [restart_policy(container.spec, pod.restart_policy, own=True) for container in regular]
    if not regular or {ALWAYS, None} & set(policies):
        return None
    retried = (each.name for each, policy in zip(regular, policies, strict=True) if policy == ON_FAILURE)
    initial = (
        each.name
        for each in pod.containers
        if each.role is Role.INIT and restart_policy(each.spec, pod.restart_policy, own=True) == NEVER
    )
    return CompletingPod(
        pod=pod.ref.uid,
        regular=tuple(each.name for each in regular),
        retried=tuple(retried),
        initial=tuple(initial),
    )


def is_over(pod: CompletingPod, listed: Iterable[ContainerInstance]) -> bool:
    """Report whether a pod is over, by what the runtime lists of it and of others."""
    newest = {each.name: each for each in sorted(listed, key=lambda c: c.created_at) if each.pod.uid == pod.pod}
    failed = any(name in newest and is_final(newest[name], pod) for name in pod.initial)
    return failed or all(name in newest and is_final(newest[name], pod) for name in pod.regular)


def is_final(container: ContainerInstance, pod: CompletingPod) -> bool:
    """Report whether a regular container of a pod has ended, and is not started again; or its init container failed."""
    if container.state is not ContainerState.EXITED or container.exit_code is None:
        return False
    if container.name not in pod.regular:
        return container.name in pod.initial and container.exit_code != 0
    return container.exit_code == 0 or container.name not in pod.retried
