"""Warnings about pods that may end by themselves during a run, or whose loss nothing would make good."""

from collections.abc import Iterator
from datetime import timedelta

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.condition.facts import PodConditions, moment, statuses_of
from nodeupgrade.domain.pods import Pod, Role

RECENTLY = timedelta(minutes=10)
"""How long a kubelet remembers that a container has crashed: twice its longest back-off."""


@check(Reason.POD_ENDS_BY_ITSELF, covers=(Hazard.CRASH_LOOP,))
def containers_do_not_crash(facts: PodConditions) -> Iterator[Finding]:
    """No container is in a crash loop; a new kubelet forgets its back-off, and starts it at once."""
    crashing = [
        f"{pod.ref}/{name}"
        for pod in facts.active()
        for name, status in statuses_of(pod).items()
        if _crashes(facts, status) and _is_restarted(pod, name)
    ]
    if crashing:
        detail = (
            f"{counted(len(crashing), 'container')} ended within the last {RECENTLY.seconds // 60} minutes, and a new "
            f"kubelet forgets the back-off of what ends again: {named(crashing)}"
        )
        yield Finding(reason=Reason.POD_ENDS_BY_ITSELF, detail=detail)


@check(Reason.POD_ENDS_BY_ITSELF, covers=(Hazard.DEADLINE_EXPIRES,))
def deadlines_are_far(facts: PodConditions) -> Iterator[Finding]:
    """No pod's activeDeadlineSeconds are over before the run is."""
    ending = [str(pod.ref) for pod in facts.active() if _ends_during(facts, pod)]
    if ending:
        detail = (
            f"activeDeadlineSeconds ends {counted(len(ending), 'pod')} within {int(facts.lasts.total_seconds())} s, "
            f"while the run still watches: {named(ending)}"
        )
        yield Finding(reason=Reason.POD_ENDS_BY_ITSELF, detail=detail)


@check(Reason.LOSS_NOT_HEALED, covers=(Hazard.LOSS_NOT_HEALED,))
def pods_would_be_replaced(facts: PodConditions) -> Iterator[Finding]:
    """Every pod is static or has a controller that makes it anew."""
    lost = [str(pod.ref) for pod in facts.active() if not _is_replaced(pod)]
    if lost:
        detail = f"{counted(len(lost), 'pod')} would be gone for good: no controller would make it anew: {named(lost)}"
        yield Finding(reason=Reason.LOSS_NOT_HEALED, detail=detail)


@check(Reason.DEBUGGING_IS_INTERRUPTED, covers=(Hazard.EPHEMERAL_CONTAINERS,))
def nobody_is_debugging(facts: PodConditions) -> Iterator[Finding]:
    """No ephemeral container runs."""
    running = [
        f"{pod.ref}/{container.name}"
        for pod in facts.active()
        for container in pod.containers
        if container.role is Role.EPHEMERAL and container.name in dict(pod.running)
    ]
    if running:
        detail = f"{counted(len(running), 'ephemeral container')} running: {named(running)}"
        yield Finding(reason=Reason.DEBUGGING_IS_INTERRUPTED, detail=detail)


def _crashes(facts: PodConditions, status: Json) -> bool:
    state = status.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        return True
    now = state.get("terminated") or {}  # between its end and the back-off
    last = now if now.get("exitCode") else (status.get("lastState") or {}).get("terminated") or {}
    ended = moment(last.get("finishedAt"))
    return ("running" in state or last is now) and ended is not None and facts.now - ended < RECENTLY


def _is_restarted(pod: Pod, name: str) -> bool:
    container = pod.container(name)
    return container is not None and (container.role is Role.SIDECAR or pod.restart_policy != "Never")


def _ends_during(facts: PodConditions, pod: Pod) -> bool:
    seconds = (pod.raw.get("spec") or {}).get("activeDeadlineSeconds")
    began = moment((pod.raw.get("status") or {}).get("startTime"))
    if not isinstance(seconds, int) or began is None:
        return False
    return (facts.now - began).total_seconds() + facts.lasts.total_seconds() >= seconds


def _is_replaced(pod: Pod) -> bool:
    owners = (pod.raw.get("metadata") or {}).get("ownerReferences") or ()
    return pod.static or any(owner.get("controller") is True for owner in owners)
