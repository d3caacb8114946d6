"""Is there room for every pod, by number and by what they ask for?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
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


@check(Reason.POD_WOULD_NOT_BE_ADMITTED)
def pods_fit(facts: Admission) -> Iterator[Finding]:
    """What all pods ask for together is there, by the configuration on disk and by what the node says it has.

    A kubelet asks the Node object, which it updates from its configuration at the same time; so both count. Whoever
    comes last sees all others, so that all are admitted if and only if all fit together.
    """
    status = facts.node.get("status") or {}
    try:
        capacity = amounts(status.get("capacity"))
        said = amounts(status.get("allocatable"))
        by_disk = allocatable(facts.settings, capacity)
        asked = _asked(facts)
    except ValueError as error:
        detail = f"nobody can tell whether all pods would be admitted again: {error}"
        yield Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)
        return
    if not {CPU, MEMORY} <= capacity.keys():
        detail = "the node does not say what it has (status.capacity), so nobody can tell whether all pods fit again"
        yield Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)
        return
    for name in sorted(asked):
        if name in (PODS, *_COMPUTED) and name in by_disk and asked[name] > by_disk[name]:
            source = f"by the kubelet's configuration on disk ({_KEYS[name]})"
            yield _too_many(name, asked[name], by_disk[name], source)
        elif name in said and asked[name] > said[name]:
            yield _too_many(name, asked[name], said[name], "by what the node says it can give (status.allocatable)")


def extended(facts: Admission) -> frozenset[str]:
    """Resources of the node that are no kubelet's own, such as those of device plugins."""
    listed = (facts.node.get("status") or {}).get("capacity") or {}
    own = {CPU, MEMORY, STORAGE, PODS}
    return frozenset(name for name in listed if name not in own and not name.startswith(HUGE_PAGES))


def _asked(facts: Admission) -> Amounts:
    asked = Amounts()
    for pod in facts.admitted():
        asked += demand(pod)
        asked[PODS] += 1
    return asked


def _too_many(name: str, asked: int, given: int, source: str) -> Finding:
    if name == PODS:
        told = f"{counted(asked, 'pod')} are on the node and {given} would be admitted {source}"
    else:
        told = f"its pods ask for {_written(name, asked)} of {name} and {_written(name, given)} would be there {source}"
    detail = f"{told}, so any start of a kubelet would kill some of them (OutOf{name})"
    return Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, detail=detail)


def _written(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / 1000:g}"
    return f"{amount / 1024**2:.0f}Mi" if name in {MEMORY, STORAGE} or name.startswith(HUGE_PAGES) else str(amount)
