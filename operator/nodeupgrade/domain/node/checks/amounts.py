"""Amounts of resources: what a pod requests, and what a kubelet can allocate."""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import resource_amount

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGE_PAGES = "hugepages-"
DEFAULT_MAX_PODS = 110
DEFAULT_EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}
_EVICTED = {MEMORY: "memory.available", STORAGE: "nodefs.available"}

Amounts = Counter[str]
"""Amounts by resource: CPUs in millicores, everything else in whole units."""


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """Parse a resource list.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    return Amounts({name: _units(name, str(value)) for name, value in (listed or {}).items()})


def demand(pod: Pod, *, as_allocated: bool = False) -> Amounts:
    """Return the effective request of a pod, as a kubelet computes it.

    Init containers run one after another, next to the sidecars that were started before them. Pod-level resources
    count if they are more than the sum of the containers', and the overhead of the runtime class is added.

    Args:
        pod: the pod.
        as_allocated: whether a resize counts only once the kubelet has agreed to it; if not, the larger amount counts.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    spec = pod.raw.get("spec") or {}
    allocated = _allocated(pod.raw.get("status") or {})
    running, at_start, sidecars = Amounts(), Amounts(), Amounts()
    for container in pod.containers:
        requested, given = _requested(container.spec), allocated.get(container.name, Amounts())
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
    total = (running + sidecars) | at_start | _requested(spec)
    return total + amounts(spec.get("overhead"))


def max_pods(settings: Configured, cpus: int) -> int:
    """Return how many pods a kubelet admits on a node with this many millicores.

    Raises:
        ValueError: a setting is not a number.
    """
    most = settings.number("max-pods", "maxPods", DEFAULT_MAX_PODS)
    per_core = settings.number("pods-per-core", "podsPerCore", 0)
    return min(most, per_core * cpus // 1000) if per_core > 0 else most


def allocatable(settings: Configured, capacity: Amounts) -> Amounts:
    """Return what a kubelet with these settings can allocate to pods.

    Raises:
        ValueError: a setting cannot be parsed.
    """
    given = Amounts(capacity)
    for kept in (_reserved(settings), _eviction(settings, capacity)):
        given.subtract({name: amount for name, amount in kept.items() if name in capacity})
    for name in capacity:
        if name.startswith(HUGE_PAGES):
            given[MEMORY] -= capacity[name]
    given[PODS] = max_pods(settings, capacity[CPU])
    return given


def _reserved(settings: Configured) -> Amounts:
    system = settings.amounts("system-reserved", "systemReserved") or {}
    kube = settings.amounts("kube-reserved", "kubeReserved") or {}
    if listed := settings.text("reserved-cpus", "reservedSystemCPUs"):
        system = {**system, CPU: str(_cpus_in(listed))}
        kube = {name: amount for name, amount in kube.items() if name != CPU}
    return amounts(system) + amounts(kube)


def _eviction(settings: Configured, capacity: Amounts) -> Amounts:
    if (ignored := settings.flag("experimental-allocatable-ignore-eviction")) is not None and ignored != "false":
        return Amounts()
    given = settings.amounts("eviction-hard", "evictionHard", "<")
    if given is None:
        given = DEFAULT_EVICTION
    elif settings.document.get("mergeDefaultEvictionSettings") is True:
        given = {**DEFAULT_EVICTION, **given}
    kept = {name: given[signal] for name, signal in _EVICTED.items() if signal in given}
    return Amounts({name: _share(name, text, capacity[name]) for name, text in kept.items()})


def _share(resource: str, text: str, capacity: int) -> int:
    if not text.endswith("%"):
        return _units(resource, text)
    try:
        return floor(capacity * Fraction(text.removesuffix("%")) / 100)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{text} is not a percentage") from error


def _requested(holder: Json) -> Amounts:
    """Return the requests; a limit without a request counts as one."""
    resources = holder.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _allocated(status: Json) -> dict[str, Amounts]:
    listed: Iterable[Json] = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {str(container.get("name")): amounts(container.get("allocatedResources")) for container in listed}


def _units(resource: str, text: str) -> int:
    """Parse one amount; kubelets round up."""
    amount = resource_amount(text) * (1000 if resource == CPU else 1)
    return -(-amount.numerator // amount.denominator)


def _cpus_in(listed: str) -> int:
    """Count the CPUs in a list such as ``0-3,8``."""
    named = set[int]()
    for part in listed.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"reservedSystemCPUs is not a list of CPUs: {listed}")
        named.update(range(int(first), int(last or first) + 1))
    return len(named)
