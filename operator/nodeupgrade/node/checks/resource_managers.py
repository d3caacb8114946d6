"""Checks of the managers of resources: would pods keep their devices, pinned CPUs and memory, NUMA node and claims?

When a kubelet starts, it asks the managers of these resources again for every pod. That a running container keeps what
it has is a special case in each of them, and each has defects.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, PodContainer, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, DEVICE_STATE, MEMORY_STATE
from nodeupgrade.kubelet.state_files.device_checkpoint import unread_format
from nodeupgrade.kubelet.state_files.fields import fields
from nodeupgrade.kubelethash import QosClass, UnreadablePod, UnsupportedKubelet, qos_class
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.resources import CPU, HUGE_PAGES, MEMORY, PODS, STORAGE
from nodeupgrade.text import integer, number


def devices(facts: Admission) -> frozenset[str]:
    """Return the extended resources that are devices of plugins; all of them if that is unknown.

    Others were written into the Node's status by other means, and most kubelets leave them there when they start
    (``extended_resources_are_kept``): their device manager does not manage them.
    """
    if facts.devices is not None:
        return extended(facts) & (facts.devices.resources | facts.devices.allocated.keys())
    unknown = DEVICE_STATE in facts.state or facts.host.device_plugins
    return extended(facts) if unknown else frozenset()


def extended(facts: Admission) -> frozenset[str]:
    """Return the node's extended resources: those of device plugins, and others."""
    listed = (facts.node.get("status") or {}).get("capacity") or {}
    own = {CPU, MEMORY, STORAGE, PODS}
    return frozenset(name for name in listed if name not in own and not name.startswith(HUGE_PAGES))


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    Reason.POD_IN_TRANSITION,
    Hazard.DEVICES_LOST,
    Hazard.DEVICE_STATE_UNREADABLE,
    history.DEVICE_CHECKPOINT_V2,
    history.DEVICE_CHECKPOINT_V1_UNREAD,
    known_defects.DEVICES_FORGOTTEN,
    known_defects.DEVICE_PODS_REJECTED,
    known_defects.DEVICES_ALLOCATED_ANEW,
    known_defects.RESTARTED_NOT_FOUND,
)
def devices_are_kept(facts: Admission) -> Iterator[Found]:
    """No kubelet that may start takes devices from a running pod.

    From 1.25.10, 1.26.5 and 1.27.2 on (#116376) they are allocated again for every container that the kubelet does not
    find running: for init containers that have ended (#124345, #138446), for containers that were restarted before
    (#135485), and for those that have ended or back off while others of the pod run. That fails, because the device
    plugin cannot have registered again by then (#133382), and the whole pod is rejected.
    """
    names = devices(facts)
    for pod in facts.admitted():
        holding = [container for container in pod.containers if names & container.resources.keys()]
        if not holding:
            continue
        held = ", ".join(sorted({name for container in holding for name in container.resources if name in names}))
        idle = _idle(facts, pod, holding)
        begun = sorted(name for name, begins in idle.items() if begins)
        if (why := _why_devices_are_lost(facts, pod, holding, sorted(idle.keys() - set(begun)))) is not None:
            yield pod, f"it holds devices ({held}) and {why}; delete the pod first"
        elif begun:
            detail = (
                f"it holds devices ({held}), not all containers that hold them run ({named(begun)}), and a starting "
                f"kubelet would allocate devices again ({known_defects.DEVICES_ALLOCATED_ANEW.reference}): wait until "
                "they run or the pod is over, or delete it"
            )
            yield Finding(reason=Reason.POD_IN_TRANSITION, subject=str(pod), detail=detail)


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.CAPACITY_TOO_SMALL, known_defects.EXTENDED_RESOURCES_ZEROED)
def extended_resources_are_kept(facts: Admission) -> Iterator[Found]:
    """No kubelet that may start sets an extended resource to 0 that a pod asks for and no device plugin provides.

    For devices such a kubelet goes by its checkpoint. Kubernetes' own resources are not extended ones.
    """
    defect = known_defects.EXTENDED_RESOURCES_ZEROED
    zeroing = next(filter(defect.affects, facts.starting), None)
    if zeroing is None:
        return
    others = {name for name in extended(facts) - devices(facts) if "/" in name and "kubernetes.io/" not in name}
    for pod in facts.admitted():
        if lost := sorted({name for container in pod.containers for name in container.resources if name in others}):
            detail = (
                f"it asks for {', '.join(lost)}, which kubelet {zeroing} sets to 0 when it starts ({defect.reference}, "
                f"fixed in {defect.fixed_after(zeroing)}), so it would be killed (OutOf{lost[0]}); delete the pod first"
            )
            yield pod, detail


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.EXCLUSIVE_RESOURCES_LOST, history.MEMORY_MANAGER)
def memory_is_not_reckoned_twice(facts: Admission) -> Iterator[Found]:
    """No guaranteed pod has init containers, for which a Static memory manager reserves memory again (#123971)."""
    if not facts.settings.pins_memory:
        return
    if not any(map(history.MEMORY_MANAGER.applies_to, facts.starting)):
        return
    for pod in facts.admitted():
        if any(container.role is Role.INIT for container in pod.containers) and is_guaranteed(facts, pod):
            detail = (
                "it is guaranteed and has init containers, for which a kubelet with memoryManagerPolicy: Static asks "
                "for memory again when it starts, and kills the pod if there is not enough (kubernetes #123971); "
                "delete the pod first"
            )
            yield pod, detail


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.EXCLUSIVE_RESOURCES_LOST)
def whole_cores_are_not_asked_for_twice(facts: Admission) -> Iterator[Found]:
    """No pod has exclusive CPUs under full-pcpus-only, where a kubelet requires as many free cores again (#129078)."""
    if not facts.settings.cpu_options.get("full-pcpus-only"):
        return
    for pod in facts.admitted():
        if is_guaranteed(facts, pod) and any(has_whole_cpus(container) for container in pod.containers):
            detail = (
                "it has CPUs of its own under full-pcpus-only: a kubelet that starts wants as many free cores again, "
                "and kills the pod if there are not (SMTAlignmentError, kubernetes #129078); delete the pod first"
            )
            yield pod, detail


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.EXCLUSIVE_RESOURCES_LOST)
def numa_nodes_are_not_chosen_anew(facts: Admission) -> Iterator[Found]:
    """No guaranteed pod has init containers that a strict topology policy would have to place again (#123859)."""
    policy = facts.settings.text("topology-manager-policy", "topologyManagerPolicy", "none")
    if facts.host.numa_nodes < 2 or policy not in {"restricted", "single-numa-node"}:
        return
    for pod in facts.admitted():
        if any(container.role is Role.INIT for container in pod.containers) and is_guaranteed(facts, pod):
            detail = (
                f"it is guaranteed and has init containers, for which a kubelet with topologyManagerPolicy: {policy} "
                "looks for a NUMA node again when it starts (kubernetes #123859); delete the pod first"
            )
            yield pod, detail


def _why_devices_are_lost(facts: Admission, pod: Pod, holding: list[PodContainer], ended: list[str]) -> str | None:
    if facts.devices is None:
        return "the kubelet's checkpoint of devices is missing or damaged, so it would find none of them"
    if (unread := unread_format(facts.devices, facts.target)) is not None:
        return f"kubelet {facts.target} does not read the format of the checkpoint of devices ({unread})"
    for version in facts.starting:
        if (defect := known_defects.DEVICE_PODS_REJECTED).affects(version):
            return f"kubelet {version} rejects running pods with devices when it starts ({defect.reference})"
        init = any(container.role is Role.INIT for container in holding)
        if (defect := known_defects.DEVICES_ALLOCATED_ANEW).affects(version) and init:
            return (
                f"so do init containers of it, for which kubelet {version} allocates devices again ({defect.reference})"
            )
        counts = (pod.states.get(container.name, {}).get("restartCount") or 0 for container in holding)
        restarted = any(integer(count) > 0 for count in counts)
        if (defect := known_defects.RESTARTED_NOT_FOUND).affects(version) and restarted:
            return f"was restarted before, so kubelet {version} considers it not running ({defect.reference})"
        if (defect := known_defects.DEVICES_ALLOCATED_ANEW).affects(version) and ended:
            return (
                f"not all containers that hold them run ({named(ended)}), for which kubelet {version} "
                f"allocates devices again ({defect.reference})"
            )
    return None


_BEING_STARTED = frozenset({"ContainerCreating", "PodInitializing"})


def _idle(facts: Admission, pod: Pod, holding: list[PodContainer]) -> Mapping[str, bool]:
    """Return the containers with devices that do not run, each with whether that passes by itself.

    None of a pod to which that does no harm: one that is being deleted, or that has no sandbox which a kubelet would
    stop. What backs off does not pass; what is being started, or has just ended, does.
    """
    anew = any(map(known_defects.DEVICES_ALLOCATED_ANEW.affects, facts.starting))
    if pod.terminating or not anew or pod.ref not in facts.begun:
        return {}
    waits = {name: (status.get("state") or {}).get("waiting") for name, status in pod.states.items()}
    backs_off = {name for name, state in waits.items() if state and state.get("reason") not in _BEING_STARTED}
    return {
        container.name: container.name not in backs_off
        for container in holding
        if container.role in {Role.REGULAR, Role.SIDECAR} and (pod.ref, container.name) not in facts.running
    }


def has_whole_cpus(container: PodContainer) -> bool:
    """Report whether a container asks for whole CPUs."""
    return number(str(container.resources.get("cpu", "m"))) is not None


def is_guaranteed(facts: Admission, pod: Pod) -> bool:
    """Report whether a pod is guaranteed; one whose class is unknown counts as guaranteed."""
    try:
        return qos_class(pod.raw, facts.target) is QosClass.GUARANTEED
    except (UnreadablePod, UnsupportedKubelet):
        return True


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.EXCLUSIVE_RESOURCES_LOST, history.CPU_STATE_V2)
def exclusive_cpus_are_recorded(facts: Admission) -> Iterator[Found]:
    """Every running container that has CPUs of its own is in the state file of the CPU manager.

    For one that is not, a kubelet that starts takes other CPUs, and rejects the pod if there are not enough.
    """
    if not facts.settings.pins_cpus:
        return
    entries = _entries(facts.state.get(CPU_STATE))
    if any(not isinstance(entry, Mapping) for entry in entries.values()):
        return  # the first format names containers, not pods; the kubelet assigns them when it starts
    for pod, container in _holders(facts):
        if has_whole_cpus(container) and container.name not in entries.get(pod.ref.uid, ()):
            yield _unrecorded(pod, container, CPU_STATE, "CPUs")


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.EXCLUSIVE_RESOURCES_LOST, history.MEMORY_MANAGER)
def exclusive_memory_is_recorded(facts: Admission) -> Iterator[Found]:
    """Every running container of a guaranteed pod is in the state file of a Static memory manager."""
    if not facts.settings.pins_memory:
        return
    if facts.current is None or not history.MEMORY_MANAGER.applies_to(facts.current):
        return  # nothing can be recorded yet
    entries = _entries(facts.state.get(MEMORY_STATE))
    for pod, container in _holders(facts):
        found = entries.get(pod.ref.uid)
        if not isinstance(found, Mapping) or container.name not in found:
            yield _unrecorded(pod, container, MEMORY_STATE, "memory")


@check(Reason.CONTAINER_WOULD_NOT_RESTART, Hazard.CLAIMS_LOST)
def claims_are_recorded(facts: Admission) -> Iterator[Found]:
    """The kubelet has recorded the claims of every pod that uses some.

    Claims are prepared when a sandbox is made, and not again when a kubelet starts. A running container keeps its
    devices; one that is restarted gets them from the record.
    """
    recorded = (facts.state.get(CLAIM_STATE) or b"").decode(errors="replace")
    lost = [str(pod.ref) for pod in facts.admitted() if _uses_claims(pod) and pod.ref.uid not in recorded]
    if lost:
        yield (
            f"the claims of {counted(len(lost), 'pod')} are not in {CLAIM_STATE}, so a kubelet that starts could not "
            f"start their containers again: {named(lost)}; delete the pods"
        )


def _holders(facts: Admission) -> Iterator[tuple[Pod, PodContainer]]:
    """Return the running containers of guaranteed pods, except where resources are those of the pod itself."""
    for pod in facts.admitted():
        if pod.spec.get("resources") or not is_guaranteed(facts, pod):
            continue
        running = {name for name, _ in pod.running}
        for container in pod.containers:
            if container.role in {Role.REGULAR, Role.SIDECAR} and (pod.from_manifest or container.name in running):
                yield pod, container


def _entries(data: bytes | None) -> Mapping[str, Any]:
    """Return what a state file records, by UID of the pod; damage is reported by ``state_files_are_readable``."""
    entries = fields(data).get("entries")
    return entries if isinstance(entries, Mapping) else {}


def _unrecorded(pod: Pod, container: PodContainer, file: str, what: str) -> Found:
    detail = (
        f"its container {container.name} has {what} of its own that {file} does not name, so a kubelet that starts "
        f"allocates {what} again, and kills the pod if there are not enough; delete the pod first"
    )
    return pod, detail


def _uses_claims(pod: Pod) -> bool:
    running = {name for name, _ in pod.running}
    using = {c.name for c in pod.containers if (c.spec.get("resources") or {}).get("claims")}
    return bool(running & using)
