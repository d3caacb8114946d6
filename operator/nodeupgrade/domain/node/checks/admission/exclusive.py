"""Checks of exclusive resources: would pods keep their devices, pinned CPUs and memory of a NUMA node?

When a kubelet starts, it asks the managers of these resources again for every pod. That a running container keeps what
it has is a special case in each of them, and each has defects.
"""

from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.facts import Admission, rejected
from nodeupgrade.domain.node.checks.admission.fitting import devices
from nodeupgrade.domain.pods import Pod, PodContainer, Role
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.state import formats
from nodeupgrade.kubelet.state.devices import DeviceCheckpoint
from nodeupgrade.kubelethash import KubeletVersion, QosClass, UnreadablePod, UnsupportedKubelet, qos_class


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(
        formats.DEVICE_CHECKPOINT_V2,
        formats.DEVICE_CHECKPOINT_V1_UNREAD,
        history.DEVICES_FORGOTTEN,
        history.DEVICE_PODS_REJECTED,
        history.DEVICES_ALLOCATED_ANEW,
        history.RESTARTED_NOT_FOUND,
    ),
    covers=(Hazard.DEVICES_LOST, Hazard.DEVICE_STATE_UNREADABLE),
)
def devices_are_kept(facts: Admission) -> Iterator[Finding]:
    """No kubelet that may start takes devices from a running pod.

    From 1.25.10 on they are allocated again for every container that the kubelet does not find running: for init
    containers that have ended (#124345, #138446), and for containers that were restarted before (#135485). That fails,
    because the device plugin cannot have registered again by then (#133382).
    """
    names = devices(facts)
    for pod in facts.admitted():
        holding = [container for container in pod.containers if names & asked(container).keys()]
        why = _why_devices_are_lost(facts, pod, holding) if holding else None
        if why is not None:
            detail = f"it holds devices ({', '.join(sorted(_named(holding, names)))}) and {why}; delete the pod first"
            yield rejected(pod, detail)


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, follows=(formats.MEMORY_MANAGER,), covers=(Hazard.EXCLUSIVE_RESOURCES_LOST,))
def memory_is_not_reckoned_twice(facts: Admission) -> Iterator[Finding]:
    """No guaranteed pod has init containers, for which a Static memory manager reserves memory again (#123971)."""
    if not facts.settings.pins_memory:
        return
    if not any(map(formats.MEMORY_MANAGER.applies_to, facts.starting)):
        return
    for pod in facts.admitted():
        if any(container.role is Role.INIT for container in pod.containers) and is_guaranteed(facts, pod):
            yield rejected(
                pod,
                "it is guaranteed and has init containers, for which a kubelet with memoryManagerPolicy: Static asks "
                "for memory again when it starts, and kills the pod if there is not enough (kubernetes #123971); "
                "delete the pod first",
            )


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, covers=(Hazard.EXCLUSIVE_RESOURCES_LOST,))
def whole_cores_are_not_asked_for_twice(facts: Admission) -> Iterator[Finding]:
    """No pod has exclusive CPUs under full-pcpus-only, where a kubelet requires as many free cores again (#129078)."""
    if not facts.settings.cpu_options.get("full-pcpus-only"):
        return
    for pod in facts.admitted():
        if is_guaranteed(facts, pod) and any(has_whole_cpus(container) for container in pod.containers):
            yield rejected(
                pod,
                "it has CPUs of its own under full-pcpus-only: a kubelet that starts wants as many free cores again, "
                "and kills the pod if there are not (SMTAlignmentError, kubernetes #129078); delete the pod first",
            )


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, covers=(Hazard.EXCLUSIVE_RESOURCES_LOST,))
def numa_nodes_are_not_chosen_anew(facts: Admission) -> Iterator[Finding]:
    """No guaranteed pod has init containers that a strict topology policy would have to place again (#123859)."""
    policy = facts.settings.text("topology-manager-policy", "topologyManagerPolicy", "none")
    if facts.host.numa_nodes < 2 or policy not in {"restricted", "single-numa-node"}:
        return
    for pod in facts.admitted():
        if any(container.role is Role.INIT for container in pod.containers) and is_guaranteed(facts, pod):
            yield rejected(
                pod,
                f"it is guaranteed and has init containers, for which a kubelet with topologyManagerPolicy: {policy} "
                "looks for a NUMA node again when it starts (kubernetes #123859); delete the pod first",
            )


def _why_devices_are_lost(facts: Admission, pod: Pod, holding: list[PodContainer]) -> str | None:
    if facts.devices is None:
        return "the kubelet's checkpoint of devices is missing or damaged, so it would find none of them"
    if (unread := _unread(facts.devices, facts.target)) is not None:
        return f"kubelet {facts.target} does not read what kubelets of another age noted of devices ({unread})"
    for version in facts.starting:
        if (defect := history.DEVICE_PODS_REJECTED).affects(version):
            return f"kubelet {version} rejects running pods with devices when it starts ({defect.reference})"
        init = any(container.role is Role.INIT for container in holding)
        if (defect := history.DEVICES_ALLOCATED_ANEW).affects(version) and init:
            return f"so do init containers of it, for which kubelet {version} allocates anew ({defect.reference})"
        restarted = any(_restarts(pod, container) for container in holding)
        if (defect := history.RESTARTED_NOT_FOUND).affects(version) and restarted:
            return f"was restarted before, so kubelet {version} takes it for not running ({defect.reference})"
    return None


def _unread(checkpoint: DeviceCheckpoint, kubelet: KubeletVersion) -> str | None:
    """Return the reference for why a kubelet cannot read the checkpoint's format; ``None`` if it can, or holds nothing.

    The old kubelet gets the checkpoint back as it was.
    """
    listed_by_node, dropped = formats.DEVICE_CHECKPOINT_V2, formats.DEVICE_CHECKPOINT_V1_UNREAD
    if not checkpoint.holdings:
        return None
    if not checkpoint.flat:
        return None if listed_by_node.applies_to(kubelet) else listed_by_node.reference
    if history.DEVICES_FORGOTTEN.affects(kubelet):
        return history.DEVICES_FORGOTTEN.reference
    return dropped.reference if dropped.applies_to(kubelet) else None


def _restarts(pod: Pod, container: PodContainer) -> bool:
    status = pod.raw.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return any(c.get("name") == container.name and int(c.get("restartCount") or 0) > 0 for c in listed)


def asked(container: PodContainer) -> dict[str, Any]:
    """Return the resources that a container asks for, with their amounts."""
    resources = container.spec.get("resources") or {}
    named = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount for name, amount in named.items() if str(amount) != "0"}


def _named(holding: list[PodContainer], names: frozenset[str]) -> set[str]:
    return {name for container in holding for name in asked(container) if name in names}


def has_whole_cpus(container: PodContainer) -> bool:
    """Report whether a container asks for whole CPUs."""
    return str(asked(container).get("cpu", "m")).isdecimal()


def is_guaranteed(facts: Admission, pod: Pod) -> bool:
    """Report whether a pod is guaranteed; one whose class is unknown counts as guaranteed."""
    try:
        return qos_class(pod.raw, facts.target) is QosClass.GUARANTEED
    except (UnreadablePod, UnsupportedKubelet):
        return True
