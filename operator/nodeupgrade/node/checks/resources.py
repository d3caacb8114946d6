"""Checks of resources: do all pods fit together, by CPU, memory, storage and number?"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from math import floor
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import allocates_pod_resources
from nodeupgrade.kubelet.settings import Configured, cpus_in, threshold
from nodeupgrade.kubelethash import resource_amount
from nodeupgrade.node.checks.facts import Admission

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGE_PAGES = "hugepages-"
DEFAULT_MAX_PODS = 110
_EVICTED = {MEMORY: "memory.available", STORAGE: "nodefs.available"}

Amounts = Counter[str]
"""Amounts by resource: CPUs in millicores, everything else in whole units."""

_COMPUTED = (CPU, MEMORY, STORAGE)
_KEYS = {
    PODS: "maxPods and podsPerCore",
    CPU: "kubeReserved, systemReserved and reservedSystemCPUs",
    MEMORY: "kubeReserved, systemReserved and evictionHard",
    STORAGE: "kubeReserved, systemReserved and evictionHard",
}

_CRITICAL = 2_000_000_000
"""Pods of this priority and above are critical."""


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    Hazard.CAPACITY_TOO_SMALL,
    Hazard.CRITICAL_POD_PREEMPTS,
    history.RESIZE_POLICY_ACTED_ON,
)
def pods_fit(facts: Admission) -> Iterator[Found]:
    """All pods fit together, by the kubelet's configuration on disk and by the Node's capacity and allocatable.

    A kubelet reads the Node object, which it updates from its configuration at the same time; so both count. It learns
    the host's CPUs, memory and huge pages when it starts, and reports them for as long as it runs (#81774). The last
    pod is admitted next to all others, so all are admitted if and only if all fit together. Only if they do, no
    critical pod ends others to make room. Devices that are allocated count as there, even if their plugin is not.
    """
    status = facts.node.get("status") or {}
    try:
        capacity = amounts(status.get("capacity"))
        given = capacity_of(facts)
        reported = amounts(status.get("allocatable"))
        for name, count in ({} if facts.devices is None else facts.devices.allocated).items():
            reported[name] = max(reported[name], count)
        by_disk = allocatable(facts.settings, given)
        requested = requests(facts)
    except ValueError as error:
        yield f"it is unknown whether all pods would be admitted again: {error}"
        return
    if not {CPU, MEMORY} <= capacity.keys():
        yield "the node does not report its capacity (status.capacity), so it is unknown whether all pods fit again"
        return
    critical = any(map(is_critical, facts.admitted()))
    changed = sorted(name for name, amount in facts.capacity.items() if amount != capacity[name])
    since = f", since {' and '.join(changed)} of the host changed after the kubelet's start" if changed else ""
    for name in sorted(requested):
        computed = name in (PODS, *_COMPUTED) or name.startswith(HUGE_PAGES)
        if computed and name in by_disk and requested[name] > by_disk[name]:
            keys = f" ({_KEYS[name]})" if name in _KEYS else ""
            source = f"according to the kubelet's configuration on disk{keys}{since}"
            yield _too_many(name, requested[name], by_disk[name], source, critical=critical)
        elif name in reported and requested[name] > reported[name]:
            source = "according to the node's status.allocatable"
            yield _too_many(name, requested[name], reported[name], source, critical=critical)


def capacity_of(facts: Admission) -> Amounts:
    """Return the capacity that a kubelet would report that starts now.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    return Amounts({**amounts((facts.node.get("status") or {}).get("capacity")), **facts.capacity})


def requests(facts: Admission, *others: Pod) -> Amounts:
    """Return what all admitted pods ask for, and perhaps some others.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    of_pods = all(allocates_pod_resources(version, facts.gates) for version in facts.starting)
    requested = Amounts()
    for pod in chain(facts.admitted(), others):
        requested += demand(pod, as_allocated=facts.as_allocated, of_pod_as_allocated=of_pods)
        requested[PODS] += 1
    return requested


def _too_many(name: str, requested: int, given: int, source: str, *, critical: bool) -> str:
    if name == PODS:
        what = f"{counted(requested, 'pod')} are on the node and {given} would be admitted {source}"
    else:
        what = (
            f"its pods ask for {shown(name, requested)} of {name} and {shown(name, given)} would be available {source}"
        )
    how = f"OutOf{name}, or Preempting to make room for critical ones" if critical else f"OutOf{name}"
    return f"{what}, so any start of a kubelet would kill some of them ({how})"


def shown(name: str, amount: int) -> str:
    """Return an amount of a resource for messages."""
    if name == CPU:
        return f"{amount / 1000:g}"
    return f"{amount / 1024**2:.0f}Mi" if name in {MEMORY, STORAGE} or name.startswith(HUGE_PAGES) else str(amount)


def is_critical(pod: Pod) -> bool:
    """Report whether a kubelet makes room for a pod by ending others, and does not evict it."""
    priority = pod.spec.get("priority")
    return pod.static or (isinstance(priority, int) and priority >= _CRITICAL)


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """Parse a resource list.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    return Amounts({name: units(name, str(value)) for name, value in (listed or {}).items()})


def demand(pod: Pod, *, as_allocated: bool = False, of_pod_as_allocated: bool = False) -> Amounts:
    """Return the effective request of a pod, as a kubelet computes it.

    Init containers run one after another, next to the sidecars that were started before them. Pod-level resources
    count if they are more than the sum of the containers', and the overhead of the runtime class is added. Of a resize
    the larger amount counts; if ``as_allocated``, what the kubelet has agreed to. So it is with a resize of pod-level
    resources; what the status says of these is the pod's effective request.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    spec, states = pod.spec, pod.states
    running, at_start, sidecars = Amounts(), Amounts(), Amounts()
    for container in pod.containers:
        requested = _requested(container.spec)
        given = amounts(states.get(container.name, {}).get("allocatedResources"))
        requested = Amounts({**requested, **given}) if as_allocated else requested | given
        match container.role:
            case Role.REGULAR:
                running += requested
            case Role.SIDECAR:
                sidecars += requested
                at_start |= sidecars
            case Role.INIT:
                at_start |= sidecars + requested
            case Role.EPHEMERAL:
                pass
    of_pod = _requested(spec)
    total = ((running + sidecars) | at_start | of_pod) + amounts(spec.get("overhead"))
    agreed = amounts(pod.status.get("allocatedResources")) if of_pod_as_allocated else {}
    return Amounts({**total, **{name: amount for name, amount in agreed.items() if name in of_pod}})


def allocatable(settings: Configured, capacity: Amounts) -> Amounts:
    """Return what a kubelet with these settings can allocate to pods.

    Raises:
        ValueError: a setting cannot be parsed.
    """
    given = Amounts(capacity)
    for kept in (reserved(settings), _eviction(settings, capacity)):
        given.subtract({name: amount for name, amount in kept.items() if name in capacity})
    for name in capacity:
        if name.startswith(HUGE_PAGES):
            given[MEMORY] -= capacity[name]
    most = settings.number("max-pods", "maxPods", DEFAULT_MAX_PODS)
    per_core = settings.number("pods-per-core", "podsPerCore", 0)
    given[PODS] = min(most, per_core * capacity[CPU] // 1000) if per_core > 0 else most
    return given


def reserved(settings: Configured) -> Amounts:
    """Return what a kubelet with these settings keeps for itself and for the system.

    Raises:
        ValueError: a setting cannot be parsed.
    """
    system = settings.amounts("system-reserved", "systemReserved") or {}
    kube = settings.amounts("kube-reserved", "kubeReserved") or {}
    if listed := settings.text("reserved-cpus", "reservedSystemCPUs"):
        system = {**system, CPU: str(len(cpus_in(listed)))}
        kube = {name: amount for name, amount in kube.items() if name != CPU}
    return amounts(system) + amounts(kube)


def _eviction(settings: Configured, capacity: Amounts) -> Amounts:
    if (ignored := settings.flag("experimental-allocatable-ignore-eviction")) is not None and ignored != "false":
        return Amounts()
    given = settings.eviction_hard()
    kept = {name: given[signal] for name, signal in _EVICTED.items() if signal in given}
    return Amounts(
        {
            name: floor(threshold(text, capacity[name])) if text.endswith("%") else units(name, text)
            for name, text in kept.items()
        }
    )


def _requested(holder: Json) -> Amounts:
    """Return the requests; a limit without a request counts as one."""
    resources = holder.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def units(resource: str, text: str) -> int:
    """Parse one amount; kubelets round up."""
    amount = resource_amount(text) * (1000 if resource == CPU else 1)
    return -(-amount.numerator // amount.denominator)
