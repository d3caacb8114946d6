"""Check of capacity: do all pods fit, by number and by their requests?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.amounts import (
    CPU,
    HUGE_PAGES,
    MEMORY,
    PODS,
    STORAGE,
    Amounts,
    allocatable,
    amounts,
    demand,
)
from nodeupgrade.domain.node.checks.admission.facts import Admission

_COMPUTED = (CPU, MEMORY, STORAGE)
_KEYS = {
    PODS: "maxPods and podsPerCore",
    CPU: "kubeReserved, systemReserved and reservedSystemCPUs",
    MEMORY: "kubeReserved, systemReserved and evictionHard",
    STORAGE: "kubeReserved, systemReserved and evictionHard",
}


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, covers=(Hazard.CAPACITY_TOO_SMALL,))
def pods_fit(facts: Admission) -> Iterator[Finding]:
    """All pods fit together, by the kubelet's configuration on disk and by the Node's capacity and allocatable.

    A kubelet reads the Node object, which it updates from its configuration at the same time; so both count. The last
    pod is admitted next to all others, so all are admitted if and only if all fit together.
    """
    status = facts.node.get("status") or {}
    try:
        capacity = amounts(status.get("capacity"))
        reported = amounts(status.get("allocatable"))
        by_disk = allocatable(facts.settings, capacity)
        requested = _requested(facts)
    except ValueError as error:
        detail = f"nobody can tell whether all pods would be admitted again: {error}"
        yield Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)
        return
    if not {CPU, MEMORY} <= capacity.keys():
        detail = "the node does not say what it has (status.capacity), so nobody can tell whether all pods fit again"
        yield Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)
        return
    for name in sorted(requested):
        if name in (PODS, *_COMPUTED) and name in by_disk and requested[name] > by_disk[name]:
            source = f"by the kubelet's configuration on disk ({_KEYS[name]})"
            yield _too_many(name, requested[name], by_disk[name], source)
        elif name in reported and requested[name] > reported[name]:
            yield _too_many(
                name, requested[name], reported[name], "by what the node says it can give (status.allocatable)"
            )


def extended(facts: Admission) -> frozenset[str]:
    """Return the node's extended resources, such as those of device plugins."""
    listed = (facts.node.get("status") or {}).get("capacity") or {}
    own = {CPU, MEMORY, STORAGE, PODS}
    return frozenset(name for name in listed if name not in own and not name.startswith(HUGE_PAGES))


def _requested(facts: Admission) -> Amounts:
    requested = Amounts()
    for pod in facts.admitted():
        requested += demand(pod)
        requested[PODS] += 1
    return requested


def _too_many(name: str, requested: int, given: int, source: str) -> Finding:
    if name == PODS:
        what = f"{counted(requested, 'pod')} are on the node and {given} would be admitted {source}"
    else:
        what = f"its pods ask for {_text(name, requested)} of {name} and {_text(name, given)} would be there {source}"
    detail = f"{what}, so any start of a kubelet would kill some of them (OutOf{name})"
    return Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)


def _text(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / 1000:g}"
    return f"{amount / 1024**2:.0f}Mi" if name in {MEMORY, STORAGE} or name.startswith(HUGE_PAGES) else str(amount)
