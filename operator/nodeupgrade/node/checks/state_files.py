"""Checks of the kubelet's state files: can the new kubelet, and the old one on the way back, go on with them?"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, MEMORY_STATE, RESIZE_STATES, STATUS_STATE
from nodeupgrade.kubelet.settings import cpus_in
from nodeupgrade.kubelet.state_files.checksums import KNOWN_OF_CPUS
from nodeupgrade.kubelet.state_files.fields import fields
from nodeupgrade.kubelet.state_files.formats import REMEDY, read_by, unreadable
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.startup import Readiness
from nodeupgrade.text import number

Table: TypeAlias = Mapping[str, Any]

POLICIES = (
    (CPU_STATE, "cpuManagerPolicy", "cpu-manager-policy", "none"),
    (MEMORY_STATE, "memoryManagerPolicy", "memory-manager-policy", "None"),
)
"""Name of the state file, key and flag of its manager's policy, and the policy's default."""


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CPU_STATE_UNREADABLE,
    Hazard.MEMORY_STATE_UNREADABLE,
    history.CPU_STATE_V2,
    history.CPU_STATE_V1_UNREAD,
    history.STATE_AS_TEXT,
    history.MEMORY_MANAGER,
    acceptable=False,
)
def state_files_are_readable(facts: Readiness) -> Iterator[Found]:
    """The new kubelet can read the state files of its CPU and memory managers; otherwise it would not start."""
    yield from _unreadable(facts, CPU_STATE, MEMORY_STATE)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CPU_STATE_UNREADABLE,
    Hazard.MEMORY_STATE_UNREADABLE,
    history.MEMORY_MANAGER,
    acceptable=False,
)
def state_fits_the_policies(facts: Readiness) -> Iterator[Found]:
    """The state files were written under the configured policies; otherwise no kubelet would start."""
    for name, key, flag, default in POLICIES:
        if name not in read_by(facts.target, facts.layout):
            continue
        configured = facts.layout.settings.text(flag, key, default)
        kept = str(fields(facts.state.get(name)).get("policyname") or "")
        if kept and kept.lower() != configured.lower():
            yield (
                f"{key} is {configured} in the kubelet's configuration, but {name} was kept under {kept}: neither the "
                "new nor the old kubelet would start; revert the change, or drain the node, remove the file and "
                "restart the kubelet first"
            )


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.POD_STATE_UNREADABLE,
    history.STATUS_STATE,
    history.STATUS_STATE_CHANGED,
    history.POD_STATE,
)
def resized_pods_are_readable(facts: Readiness) -> Iterator[Found]:
    """The new kubelet can read what the old one keeps about the resources of pods."""
    yield from _unreadable(facts, STATUS_STATE, *RESIZE_STATES)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.DRA_STATE_UNREADABLE,
    Hazard.STATE_UNREADABLE_ON_WAY_BACK,
    history.DRA_STATE_EXTENDED,
    history.DRA_STATE_CHANGED,
    history.DRA_BY_DEFAULT,
)
def claims_are_readable(facts: Readiness) -> Iterator[Found]:
    """The new kubelet can read which claims of dynamic resource allocation the old one has prepared."""
    yield from _unreadable(facts, CLAIM_STATE)


def _unreadable(facts: Readiness, *names: str) -> Iterator[str]:
    for name in read_by(facts.target, facts.layout):
        data = facts.state.get(name) if name in names else None
        problem = None if data is None else unreadable(name, data, facts.target, facts.current or facts.target)
        if problem is not None:
            yield f"kubelet {facts.target} cannot read the state file {name}: {problem}"


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.STATE_UNREADABLE_ON_WAY_BACK, history.POD_LEVEL_STATE)
def pod_level_resources_are_not_in_use(facts: Readiness) -> Iterator[Found]:
    """No kubelet older than 1.36 would have to read the state that 1.36 keeps of resources at the level of pods."""
    changed = history.POD_LEVEL_STATE
    older = changed.begins_between(facts.target, facts.current) and facts.current and facts.target < facts.current
    if not older or not facts.layout.gates.get("PodLevelResourceManagers"):
        return
    for name in (CPU_STATE, MEMORY_STATE):
        if name in facts.state:
            yield (
                f"kubelet {facts.target} cannot read the state file {name}: kubelet {facts.current} writes it in "
                f"another format while PodLevelResourceManagers is on ({changed.reference}); drain the node, and "
                "remove the file while the kubelet is stopped"
            )


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.CPU_STATE_UNREADABLE)
def pinned_cpus_are_there(facts: Readiness) -> Iterator[Found]:
    """With cpuManagerPolicy static, the CPUs in the state file are those that are online, reserved ones included."""
    settings = facts.layout.settings
    state = fields(facts.state.get(CPU_STATE))
    if not settings.pins_cpus or state.keys() - KNOWN_OF_CPUS:
        return
    strict = settings.cpu_options.get("strict-cpu-reservation", False)
    listed = settings.text("reserved-cpus", "reservedSystemCPUs")
    try:
        shared, pinned = cpus_in(state.get("defaultcpuset")), _pinned(state.get("entries"))
        reserved, online = cpus_in(listed), cpus_in(facts.host.online_cpus)
    except ValueError as error:
        yield f"the kubelet would not start with the state file {CPU_STATE}: {error}; {REMEDY}"
        return
    if (strict and not listed) or not online or not (shared or pinned):
        return  # it is unknown which CPUs a kubelet reserves by amount; without any, it starts afresh
    wanted = online - reserved if strict else online
    if shared | pinned != wanted:
        problem = f"it accounts for CPUs {_listed(shared | pinned)}, but those to share are {_listed(wanted)}"
    elif not strict and not reserved <= shared:
        problem = f"the reserved CPUs {_listed(reserved - shared)} are pinned to pods"
    else:
        return
    yield f"the kubelet would not start with the state file {CPU_STATE}: {problem}; {REMEDY}"


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.MEMORY_STATE_UNREADABLE, history.MEMORY_MANAGER, history.MEMORY_BY_NODE)
def memory_is_as_recorded(facts: Readiness) -> Iterator[Found]:
    """With memoryManagerPolicy Static, each NUMA node has the memory and huge pages that are in the state file.

    Kubelets before 1.32 also refuse a group of NUMA nodes that is not filled from its first node on. They leave one so
    when containers end.
    """
    if not facts.layout.settings.pins_memory or MEMORY_STATE not in read_by(facts.target, facts.layout):
        return
    machine = _table(fields(facts.state.get(MEMORY_STATE)).get("machinestate"))
    recorded = {at: _table(node) for name, node in machine.items() if (at := number(name)) is not None}
    starting = (facts.target, facts.current or facts.target)
    older = next((each for each in starting if history.MEMORY_BY_NODE.applies_to(each)), None)
    unfilled = () if older is None else _unfilled(recorded, older)
    if problem := next(chain(_differences(recorded, facts.host.numa), unfilled), None):
        yield f"the kubelet would not start with the state file {MEMORY_STATE}: {problem}; {REMEDY}"


def _differences(recorded: Mapping[int, Table], numa: Mapping[int, Mapping[str, int]]) -> Iterator[str]:
    if recorded and numa and recorded.keys() != numa.keys():
        yield f"it accounts for NUMA nodes {_listed(recorded.keys())}, and the host has {_listed(numa.keys())}"
    for at, node in recorded.items():
        for name, table in _table(node.get("memoryMap")).items():
            total, size = _bytes(table, "total"), numa.get(at, {}).get(name)
            if size not in (None, total):
                yield f"it accounts for {total} bytes of {name} in NUMA node {at}, which has {size}"


def _unfilled(recorded: Mapping[int, Table], refusing: KubeletVersion) -> Iterator[str]:
    for node in recorded.values():
        cells = node.get("cells")
        group = [cell for cell in cells if type(cell) is int] if isinstance(cells, list) else []
        for name in _table(node.get("memoryMap")):
            left = False
            for cell in group:
                table = _table(recorded.get(cell, {}).get("memoryMap")).get(name)
                if left and _bytes(table, "reserved"):
                    yield (
                        f"it has {name} reserved in NUMA node {cell} and some left in one before it in its group, as "
                        f"kubelet {refusing} does not compute it ({history.MEMORY_BY_NODE.reference})"
                    )
                left |= _bytes(table, "free") > 0


def _table(value: object) -> Table:
    return value if isinstance(value, Mapping) else {}


def _bytes(table: object, name: str) -> int:
    value = _table(table).get(name)
    return value if isinstance(value, int) else 0


def _pinned(entries: object) -> frozenset[int]:
    """Return all CPUs of containers, by container as up to 1.17, or by pod and container."""
    if isinstance(entries, Mapping):
        return frozenset[int]().union(*(_pinned(entry) for entry in entries.values()))
    return cpus_in(entries)


def _listed(cpus: Iterable[int]) -> str:
    """Write CPUs, or NUMA nodes, as in ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


RUNNING = frozenset({Role.REGULAR, Role.SIDECAR})


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.DEVICE_STATE_UNREADABLE, Hazard.DEVICES_LOST)
def devices_are_on_record(facts: Admission) -> Iterator[Found]:
    """The checkpoint of devices, if it can be read, has every running container that asks for a device.

    A kubelet that starts takes the devices of other containers for free. A damaged checkpoint is reported by
    ``devices_are_kept``, for the pods that it concerns.
    """
    recorded = facts.devices
    if recorded is None:
        return
    for pod in facts.admitted():
        running = {name for name, _ in pod.running}
        for container in (each for each in pod.containers if each.role in RUNNING and each.name in running):
            limits = (container.spec.get("resources") or {}).get("limits") or {}
            wanted = {name for name, amount in limits.items() if str(amount) != "0"} & recorded.resources
            lacking = sorted(name for name in wanted if (pod.ref.uid, container.name, name) not in recorded.holdings)
            if lacking:
                detail = (
                    f"its container {container.name} has {', '.join(lacking)}, of which the kubelet's checkpoint of "
                    "devices says nothing, so that a kubelet that starts would give them away; delete the pod first"
                )
                yield pod, detail
