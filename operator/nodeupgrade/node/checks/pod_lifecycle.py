"""Checks of pods' lifecycles: what would an exchange of the kubelet interrupt, and what could be lost for good?"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import RejectedPod
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.agent_pods import RUN_LABEL
from nodeupgrade.cluster.pod_owner import controller_of
from nodeupgrade.cluster.pods import Pod, PodContainer, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.restart_policies import NEVER, restart_policy
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.resources import STORAGE, is_critical, units
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from nodeupgrade.text import known_time


def active(facts: NodeFacts) -> Iterator[Pod]:
    """Return the pods of the API server that have not ended, without this project's own.

    Manifests show nothing of what happens.
    """
    return (pod for pod in facts.traffic.pods if not (pod.finished or _is_own(facts, pod)))


def _is_own(facts: NodeFacts, pod: Pod) -> bool:
    return RUN_LABEL in pod.labels and pod.ref.namespace == facts.namespace


def held(facts: NodeFacts, pod: Pod) -> Iterator[ContainerInstance]:
    """Return the containers of a pod that the runtime holds, running or not."""
    return (container for container in facts.inventory.containers if container.pod == pod.ref)


RECENTLY = timedelta(minutes=10)
"""How long a kubelet remembers that a container has crashed: twice its longest back-off."""


@check(Reason.POD_EXPECTED_TO_END, Hazard.CRASH_LOOP)
def containers_do_not_crash(facts: NodeFacts) -> Iterator[Found]:
    """No container is in a crash loop; a new kubelet forgets its back-off, and starts it at once."""
    crashing = [
        f"{pod.ref}/{name}"
        for pod in active(facts)
        for name, status in pod.states.items()
        if _crashes(facts, status) and _is_restarted(facts, pod, name)
    ]
    if crashing:
        yield (
            f"{counted(len(crashing), 'container')} ended within the last {RECENTLY.seconds // 60} minutes, and a new "
            f"kubelet forgets the back-off of what ends again: {named(crashing)}"
        )


@check(Reason.POD_EXPECTED_TO_END, Hazard.DEADLINE_EXPIRES)
def deadlines_are_far(facts: NodeFacts) -> Iterator[Found]:
    """No pod's activeDeadlineSeconds are over before the run is."""
    ending = [str(pod.ref) for pod in active(facts) if _ends_during(facts, pod)]
    if ending:
        yield (
            f"activeDeadlineSeconds ends {counted(len(ending), 'pod')} within {facts.lasts // timedelta(seconds=1)} s, "
            f"while the run still watches: {named(ending)}"
        )


@check(
    Reason.POD_EXPECTED_TO_END,
    Hazard.SIDECAR_STORAGE_LIMITED,
    history.SIDECAR_STORAGE_LIMITED,
    remedy="make sure that the sidecars named in the message use less than that, or raise their limits",
)
def sidecars_keep_to_their_storage(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet is not the first to evict a pod whose sidecar exceeds its limit of ephemeral storage.

    How much a sidecar uses is not known from the API. Kubelets evict no critical pod for that.
    """
    change = history.SIDECAR_STORAGE_LIMITED
    isolated = facts.settings.document.get("localStorageCapacityIsolation") is not False
    if not isolated or not change.begins_between(facts.current, facts.target):
        return
    limited = [
        f"{pod.ref}/{container.name} ({limit})"
        for pod in active(facts)
        for container in pod.containers
        if (limit := _storage_limit(container)) and container.name in dict(pod.running) and not is_critical(pod)
    ]
    if limited:
        yield (
            f"kubelet {facts.target} is the first to evict a pod for a sidecar that exceeds its limit of "
            f"{STORAGE} ({change.reference}); {counted(len(limited), 'sidecar')} with such a limit: {named(limited)}"
        )


def _storage_limit(container: PodContainer) -> str | None:
    """Return the limit of a sidecar's ephemeral storage; ``None`` if it has none, which 0 means as well."""
    limits = (container.spec.get("resources") or {}).get("limits") or {}
    if container.role is not Role.SIDECAR or STORAGE not in limits:
        return None
    limit = str(limits[STORAGE])
    return limit if units(STORAGE, limit) else None


@check(Reason.POD_WITHOUT_CONTROLLER, Hazard.LOSS_NOT_HEALED)
def pods_would_be_replaced(facts: NodeFacts) -> Iterator[Found]:
    """Every pod is static or has a controller that recreates it."""
    lost = [str(pod.ref) for pod in active(facts) if not pod.static and controller_of(pod) is None]
    if lost:
        yield f"{counted(len(lost), 'pod')} without a controller would be gone for good: {named(lost)}"


@check(Reason.DEBUG_SESSION_WOULD_END, Hazard.EPHEMERAL_CONTAINERS)
def nobody_is_debugging(facts: NodeFacts) -> Iterator[Found]:
    """No ephemeral container runs."""
    running = [
        f"{pod.ref}/{container.name}"
        for pod in active(facts)
        for container in pod.containers
        if container.role is Role.EPHEMERAL and container.name in dict(pod.running)
    ]
    if running:
        yield f"{counted(len(running), 'ephemeral container')} running: {named(running)}"


def _crashes(facts: NodeFacts, status: Json) -> bool:
    state = status.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        return True
    now = state.get("terminated") or {}  # between its end and the back-off
    last = now if now.get("exitCode") else (status.get("lastState") or {}).get("terminated") or {}
    ended = known_time(last.get("finishedAt"))
    return ("running" in state or last is now) and ended is not None and facts.now - ended < RECENTLY


def _is_restarted(facts: NodeFacts, pod: Pod, name: str) -> bool:
    if (container := pod.container(name)) is None:
        return False
    _, own = facts.heeding
    return container.role is Role.SIDECAR or restart_policy(container.spec, pod.restart_policy, own=own) != NEVER


def _ends_during(facts: NodeFacts, pod: Pod) -> bool:
    seconds = pod.spec.get("activeDeadlineSeconds")
    began = known_time(pod.status.get("startTime"))
    if not isinstance(seconds, int) or began is None:
        return False
    return (facts.now - began).total_seconds() + facts.lasts.total_seconds() >= seconds


@check(Reason.POD_IN_TRANSITION, Hazard.POD_IN_TRANSITION)
def hooks_are_over(facts: NodeFacts) -> Iterator[Found]:
    """No container is executing its postStart hook, which is lost with the kubelet and not executed again.

    A kubelet reports a container as running only once that hook is over; until then, one that it started again is
    still reported as terminated (``convertToAPIContainerStatuses``).
    """
    for pod in active(facts):
        running = dict(pod.running)
        for instance in held(facts, pod):
            container = pod.container(instance.name)
            if instance.state is not ContainerState.RUNNING or container is None:
                continue
            waits = running.get(instance.name) != instance.id
            if waits and (container.spec.get("lifecycle") or {}).get("postStart"):
                detail = "its postStart hook has not finished, and the new kubelet would not execute it again"
                yield instance.label, detail


@check(Reason.KUBELET_DEFECT, Hazard.INIT_CONTAINERS_COLLECTED, history.INIT_CONTAINERS_REMEMBERED, remedy="")
def init_containers_are_remembered(facts: NodeFacts) -> Iterator[Found]:
    """The runtime holds every running pod's last init container, where a kubelet would otherwise run it again."""
    remembered = history.INIT_CONTAINERS_REMEMBERED
    if remembered.applies_to(facts.target):
        return
    for pod in active(facts):
        containers = {instance.name: instance.state for instance in held(facts, pod)}
        roles = {container.name: container.role for container in pod.containers}
        last = next((name for name, role in reversed(roles.items()) if role is Role.INIT), None)
        runs = any(
            roles.get(name) is Role.REGULAR and state is ContainerState.RUNNING for name, state in containers.items()
        )
        if runs and last is not None and last not in containers:
            detail = (
                f"the runtime no longer holds its init container {last}, so kubelet {facts.target} runs its init "
                f"containers again beside it ({remembered.reference}); delete the pod first, or choose "
                f"{remembered.since} or later"
            )
            yield pod, detail


def _has_restarted(pod: Pod) -> bool:
    return any(status.get("restartCount") for status in pod.states.values())


_REJECTED: Mapping[RejectedPod, Callable[[Pod], bool]] = {
    RejectedPod.NOT_READY: lambda pod: not pod.ready,
    RejectedPod.RESTARTED: _has_restarted,
    RejectedPod.RESTARTED_AND_NOT_READY: lambda pod: _has_restarted(pod) and not pod.ready,
}


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.VENDOR_ADMISSION)
def vendors_kubelet_admits_the_pods(facts: NodeFacts) -> Iterator[Found]:
    """No pod is in a condition that ``kubelet.alsoRejects`` names, in which a vendor's kubelets do not admit it."""
    for pod in active(facts):
        named_here = [each.value for each in facts.spec.kubelet.also_rejects if _REJECTED[each](pod)]
        if named_here:
            yield (
                pod,
                f"it is {', '.join(named_here)}, and kubelet.alsoRejects says that the node's kubelets end such pods",
            )


IN_PLACE_UPDATE = "InPlaceUpdateReady"
"""The condition that OpenKruise keeps False while it exchanges the image of a pod, and with it a container."""


@check(Reason.POD_IN_TRANSITION, Hazard.POD_IN_TRANSITION)
def nothing_is_updated_in_place(facts: NodeFacts) -> Iterator[Found]:
    """No pod is being updated in place."""
    for pod in facts.running_pods():
        conditions = {c.get("type"): c.get("status") for c in pod.status.get("conditions") or ()}
        if conditions.get(IN_PLACE_UPDATE) == "False":
            yield pod, "an update in place is in progress (OpenKruise): wait until its image is the new one"


RESTART_ALL = "RestartAllContainers"


@check(Reason.POD_MAY_RESTART_AS_A_WHOLE, Hazard.WHOLE_POD_RESTARTS, history.ALL_CONTAINERS_RESTART)
def no_pod_restarts_as_a_whole(facts: NodeFacts) -> Iterator[Found]:
    """No pod has a rule by which the exit of one container restarts all of its containers."""
    for pod in active(facts):
        ruled = [
            container.name
            for container in pod.containers
            if any(rule.get("action") == RESTART_ALL for rule in container.spec.get("restartPolicyRules") or ())
        ]
        if ruled:
            yield pod, f"restartPolicyRules of {named(ruled)} restart all of its containers ({RESTART_ALL})"


@check(
    Reason.RESTART_POLICY_IGNORED,
    Hazard.RESTART_POLICY_IGNORED,
    history.CONTAINER_POLICIES,
    history.CONTAINER_POLICIES_BY_DEFAULT,
)
def restart_policies_are_heeded(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet is not the first to ignore the restart policy of a container that has one of its own.

    It would start one-shot containers again that have ended, or end a pod that another kubelet keeps running.
    """
    if facts.heeding != (True, False):
        return
    for pod in active(facts):
        if own := [container.name for container in pod.containers if _has_own_policy(pod, container)]:
            verb = "has a restart policy of its own" if len(own) == 1 else "have restart policies of their own"
            detail = (
                f"{named(own)} {verb}, which kubelet {facts.target} ignores "
                f"({history.CONTAINER_POLICIES.reference}): it goes by that of the pod ({pod.restart_policy})"
            )
            yield pod, detail


def _has_own_policy(pod: Pod, container: PodContainer) -> bool:
    """Report whether the policy of a container still matters, and is not that of its pod."""
    own, of_pod = (restart_policy(container.spec, pod.restart_policy, own=each) for each in (True, False))
    ended = (pod.states.get(container.name, {}).get("state") or {}).get("terminated") or {}
    over = container.role is Role.INIT and ended.get("exitCode") == 0
    return container.role in {Role.REGULAR, Role.INIT} and own != of_pod and not over
