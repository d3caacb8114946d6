"""Check of pinned CPUs: a kubelet exits if its state does not account for exactly the CPUs that the node has."""

from collections.abc import Iterator, Mapping

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet.layout import CPU_STATE
from nodeupgrade.kubelet.state.checksums import KNOWN_OF_CPUS
from nodeupgrade.kubelet.state.documents import fields

REMEDY = "drain the node, remove the file, and restart the kubelet"
MOST = 8192
"""CPUs that Linux can have."""


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.CPU_STATE_UNREADABLE,))
def pinned_cpus_are_there(facts: Readiness) -> Iterator[Finding]:
    """With cpuManagerPolicy static, the CPUs in the state file are those that are online, reserved ones included."""
    settings = facts.layout.settings
    state = fields(facts.state.get(CPU_STATE))
    if not settings.pins_cpus or state.keys() - KNOWN_OF_CPUS:
        return
    strict = settings.cpu_options.get("strict-cpu-reservation", False)
    listed = settings.text("reserved-cpus", "reservedSystemCPUs")
    try:
        shared, pinned = _cpus(state.get("defaultcpuset")), _pinned(state.get("entries"))
        reserved, online = _cpus(listed), _cpus(facts.host.online_cpus)
    except ValueError as error:
        detail = f"the kubelet would not start with the state file {CPU_STATE}: {error}; {REMEDY}"
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
        return
    if (strict and not listed) or not online or not (shared or pinned):
        return  # which CPUs a kubelet reserves by amount cannot be told; without any, it begins anew
    wanted = online - reserved if strict else online
    if shared | pinned != wanted:
        problem = f"it accounts for CPUs {_listed(shared | pinned)}, but those to share are {_listed(wanted)}"
    elif not strict and not reserved <= shared:
        problem = f"the reserved CPUs {_listed(reserved - shared)} are pinned to pods"
    else:
        return
    detail = f"the kubelet would not start with the state file {CPU_STATE}: {problem}; {REMEDY}"
    yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _pinned(entries: object) -> frozenset[int]:
    """Return all CPUs of containers, by container as up to 1.17, or by pod and container."""
    if isinstance(entries, Mapping):
        return frozenset[int]().union(*(_pinned(entry) for entry in entries.values()))
    return _cpus(entries)


def _cpus(text: object) -> frozenset[int]:
    """Parse a list such as ``0-3,8``.

    Raises:
        ValueError: it is not such a list.
    """
    found = set[int]()
    for part in [] if text is None or text == "" else str(text).strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) > MOST:
            raise ValueError(f"{str(text)[:80]} is not a list of CPUs")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _listed(cpus: frozenset[int]) -> str:
    """Write CPUs as in ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


CHECKS: tuple[Check[Readiness], ...] = (pinned_cpus_are_there,)
