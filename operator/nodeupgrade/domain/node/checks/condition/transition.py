"""Checks of what is going on in pods: would a kubelet that is exchanged now leave something half done?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.condition.facts import PodConditions, statuses_of
from nodeupgrade.domain.node.inventory import ContainerState
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet import history

_RESIZING = frozenset({"PodResizeInProgress", "PodResizePending"})


@check(Reason.POD_IN_TRANSITION, covers=(Hazard.POD_IN_TRANSITION,))
def hooks_are_over(facts: PodConditions) -> Iterator[Finding]:
    """No container is executing its postStart hook, which is lost with the kubelet and not executed again.

    A kubelet reports a container as running only once that hook is over.
    """
    for pod in facts.active():
        statuses = statuses_of(pod)
        for instance in facts.held(pod):
            container = pod.container(instance.name)
            if instance.state is not ContainerState.RUNNING or container is None:
                continue
            waits = "waiting" in (statuses.get(instance.name, {}).get("state") or {})
            if waits and (container.spec.get("lifecycle") or {}).get("postStart"):
                detail = "its postStart hook is not over yet, and would not be executed again by the new kubelet"
                yield Finding(reason=Reason.POD_IN_TRANSITION, subject=instance.label, detail=detail)


@check(
    Reason.RESIZE_POLICY_RESTART, follows=(history.RESIZE_POLICY_ACTED_ON,), covers=(Hazard.RESIZE_RESTARTS,)
)  # fmt: skip
def resizes_are_over(facts: PodConditions) -> Iterator[Finding]:
    """No resize is pending or in progress that restarts a container once the new kubelet gets to it."""
    if facts.current is None or not history.RESIZE_POLICY_ACTED_ON.applies_to(facts.current):
        return
    for pod in facts.active():
        restarting = [container.name for container in pod.containers if _is_restarted_by_a_resize(container.spec)]
        if restarting and (condition := _resize(pod)) is not None:
            detail = (
                f"a resize of it is not over ({condition}), which restarts {', '.join(restarting)} as resizePolicy says"
            )
            yield Finding(reason=Reason.RESIZE_POLICY_RESTART, subject=str(pod.ref), detail=detail)


@check(
    Reason.KUBELET_DEFECT,
    follows=(history.INIT_CONTAINERS_REMEMBERED,),
    covers=(Hazard.INIT_CONTAINERS_COLLECTED,),
)
def init_containers_are_remembered(facts: PodConditions) -> Iterator[Finding]:
    """The runtime holds every running pod's last init container, where a kubelet would otherwise run it again."""
    remembered = history.INIT_CONTAINERS_REMEMBERED
    if remembered.applies_to(facts.target):
        return
    for pod in facts.active():
        containers = {instance.name: instance.state for instance in facts.held(pod)}
        roles = {container.name: container.role for container in pod.containers}
        last = next((name for name, role in reversed(roles.items()) if role is Role.INIT), None)
        runs = any(roles.get(name) is Role.REGULAR and _runs(state) for name, state in containers.items())
        if runs and last is not None and last not in containers:
            detail = (
                f"the runtime no longer holds its init container {last}, so kubelet {facts.target} runs its init "
                f"containers again beside it ({remembered.reference}); delete the pod first, or choose "
                f"{remembered.since} or later"
            )
            yield Finding(reason=Reason.KUBELET_DEFECT, subject=str(pod.ref), detail=detail, remedy="")


def _runs(state: ContainerState) -> bool:
    return state is ContainerState.RUNNING


def _is_restarted_by_a_resize(spec: object) -> bool:
    policies = spec.get("resizePolicy") if isinstance(spec, dict) else None
    return any(policy.get("restartPolicy") == "RestartContainer" for policy in policies or ())


def _resize(pod: Pod) -> str | None:
    """Return the condition of a resize that a kubelet may still carry out, or ``None``."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or ()
    going_on = (each for each in conditions if each.get("type") in _RESIZING and each.get("status") == "True")
    return next((str(each["type"]) for each in going_on if each.get("reason") != "Infeasible"), None)
