"""Checks of cgroups: are those of the pods complete for a starting kubelet, and would its limit cover their usage?"""

from collections.abc import Iterator, Mapping

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.surroundings.facts import HostSurroundings
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import resource_amount

RELOAD = "delete the pod first, and find out what took it away (a `systemctl daemon-reload` may, kubernetes #128397)"


@check(Reason.POD_CGROUP_MOVES, covers=(Hazard.CGROUP_CONTROLLER_MISSING,))
def pods_have_their_controllers(facts: HostSurroundings) -> Iterator[Finding]:
    """Every running pod has a cgroup with all controllers that kubelets need; a starting one kills other pods.

    A kubelet looks for a pod's cgroup before it does anything else for the pod. On cgroup v2 a cgroup counts only with
    the controllers cpu, cpuset, memory, hugetlb and pids, on v1 only if it exists in all of these hierarchies.
    """
    cgroups = facts.cgroups
    if cgroups is None:
        return
    if not cgroups.exists:
        detail = (
            f"there is no cgroup {cgroups.base}, in which a kubelet with the node's configuration looks for its pods, "
            "so it would find none of them and kill them all"
        )
        yield Finding(reason=Reason.POD_CGROUP_MOVES, detail=detail)
        return
    for pod, missing in cgroups.incomplete.items():
        detail = f"its cgroup lacks {', '.join(missing)}, so that any kubelet that starts would kill it"
        yield Finding(reason=Reason.POD_CGROUP_MOVES, subject=pod, detail=detail, remedy=RELOAD)


@check(Reason.POD_CGROUP_MOVES, covers=(Hazard.CGROUP_LIMIT_BELOW_USAGE,))
def limit_covers_usage(facts: HostSurroundings) -> Iterator[Finding]:
    """The memory limit that the kubelet would set for all pods is not lowered below what they use.

    A kubelet sets this limit when it starts, and on cgroup v2 the kernel ends processes until the limit is met.
    """
    cgroups = facts.cgroups
    if cgroups is None or cgroups.used is None or not _enforces(facts.settings):
        return
    try:
        limit = _limit(facts)
    except ValueError as error:
        detail = f"nobody can tell which memory limit the kubelet would set for all pods: {error}"
        yield Finding(reason=Reason.POD_CGROUP_MOVES, detail=detail)
        return
    sinks = limit is not None and (cgroups.limit is None or limit < cgroups.limit)
    if limit is not None and sinks and cgroups.used > limit:
        before = "no limit" if cgroups.limit is None else _text(cgroups.limit)
        detail = (
            f"the pods use {_text(cgroups.used)} of memory under {before}, and a kubelet with the configuration on "
            f"disk (kubeReserved and systemReserved) would limit them to {_text(limit)}, so the kernel would end some"
        )
        yield Finding(reason=Reason.POD_CGROUP_MOVES, detail=detail)


def _enforces(settings: Configured) -> bool:
    """Report whether the kubelet sets a limit for all pods, as it does by default."""
    given = settings.flag("enforce-node-allocatable")
    listed = settings.document.get("enforceNodeAllocatable") if given is None else given.split(",")
    return listed is None or (isinstance(listed, list) and "pods" in listed)


def _limit(facts: HostSurroundings) -> int | None:
    """Return the limit in bytes; ``None`` if the node does not say how much memory it has.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    capacity = ((facts.node.get("status") or {}).get("capacity") or {}).get("memory")
    if capacity is None:
        return None
    kept = (("system-reserved", "systemReserved"), ("kube-reserved", "kubeReserved"))
    return _bytes(capacity) - sum(_memory(facts.settings.amounts(flag, key)) for flag, key in kept)


def _memory(amounts: Mapping[str, str] | None) -> int:
    return _bytes((amounts or {}).get("memory", "0"))


def _bytes(text: object) -> int:
    return int(resource_amount(str(text)))


def _text(amount: int) -> str:
    return f"{amount / 1024**2:.0f}Mi"
