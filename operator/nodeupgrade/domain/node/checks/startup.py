"""Checks of the kubelet's start: will the new kubelet start, and find every pod?

What these checks find would also fail the run itself, but only after the kubelet has stopped or containers are lost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.host import RuntimeInfo, UnitStatus
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.flags import complaint
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelethash import KubeletVersion

MANAGERS = (
    ("cpu_manager_state", "cpuManagerPolicy", "cpu-manager-policy", "none"),
    ("memory_manager_state", "memoryManagerPolicy", "memory-manager-policy", "None"),
)
"""Name of the state file, key and flag of its manager's policy, and the policy's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The facts that the checks of this module judge.

    Attributes:
        current: version of the running kubelet; ``None`` if unknown.
        layout: its command line and configuration.
        gates_output: what the new kubelet prints when started with the node's feature gates and a configuration file
            that does not exist.
        units: the units of the kubelet and the runtime.
        unchangeable: paths that have to be changed but are immutable.
        read_only: directories that have to be written to but are mounted read-only.
        cgroup_driver: the driver that created the cgroups of the running pods; ``None`` if unknown.
        cgroup_v2: whether the node has the unified hierarchy.
        state: content of the kubelet's state files, by file name.
    """

    current: KubeletVersion | None
    target: KubeletVersion
    layout: KubeletLayout
    gates_output: str
    units: tuple[UnitStatus, ...]
    unchangeable: tuple[str, ...]
    runtime: RuntimeInfo
    cgroup_driver: str | None
    cgroup_v2: bool
    state: Mapping[str, bytes]
    read_only: tuple[str, ...] = ()


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.GATE_REJECTED,))
def feature_gates_are_known(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet accepts every feature gate that is set.

    Its own program is asked: it exits at once on a gate that was removed, or that is locked to the other value.
    """
    for sign in ("unrecognized feature gate", "cannot set feature gate"):
        if sign in facts.gates_output:
            line = complaint(facts.gates_output, telling=(sign,))
            said = line[line.index(sign) :][:200]
            detail = (
                f"kubelet {facts.target} does not start with the node's feature gates: {said}; "
                "take the gate out of the kubelet's configuration first"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
            return


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.COMMAND_LINE_DRIFTED,), acceptable=False)
def units_are_as_loaded(facts: Readiness) -> Iterator[Finding]:
    """The unit files are those that systemd has loaded, so that what starts is what was examined."""
    for unit in facts.units:
        if unit.needs_reload:
            detail = (
                f"the files of {unit.name} were changed after systemd read them, so that it would start in another way "
                "than it runs now; run `systemctl daemon-reload`, and restart it if the change is meant"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(Reason.PROGRAM_NOT_REPLACEABLE, acceptable=False)
def files_can_be_changed(facts: Readiness) -> Iterator[Finding]:
    """No file that has to be replaced is immutable or on a filesystem that is mounted read-only."""
    for path in facts.read_only:
        detail = f"{path} is on a filesystem that is mounted read-only; remount it, or exclude the node"
        yield Finding(reason=Reason.PROGRAM_NOT_REPLACEABLE, detail=detail)
    for path in facts.unchangeable:
        detail = f"{path} has the attribute immutable or append-only; take it away: chattr -ia {path}"
        yield Finding(reason=Reason.PROGRAM_NOT_REPLACEABLE, detail=detail)


@check(
    Reason.POD_CGROUP_MOVES,
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.CGROUP_DRIVER_FROM_RUNTIME, history.CGROUP_V1_REFUSED),
    covers=(Hazard.CGROUP_DRIVER_CHANGES, Hazard.CGROUP_V1_REFUSED),
)
def cgroups_stay_where_they_are(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet uses the cgroup driver that the pods were started with, and runs on the node's cgroup version.

    From 1.31 on a kubelet takes the driver from the runtime, if that reports one, and not from its own configuration.
    With another driver it finds no pod's cgroup, and kills every pod.
    """
    reported = facts.runtime.cgroup_driver if history.CGROUP_DRIVER_FROM_RUNTIME.applies_to(facts.target) else None
    driver = reported or facts.layout.cgroup_driver
    if facts.cgroup_driver is not None and driver != facts.cgroup_driver:
        source = f"{facts.runtime.name} says so" if reported else "its configuration says so"
        detail = (
            f"kubelet {facts.target} would use the cgroup driver {driver} ({source}), but pods were started with "
            f"{facts.cgroup_driver}, so it would kill all of them; make both say {facts.cgroup_driver}"
        )
        yield Finding(reason=Reason.POD_CGROUP_MOVES, detail=detail)
    refused = history.CGROUP_V1_REFUSED
    if not facts.cgroup_v2 and refused.applies_to(facts.target) and facts.layout.fails_on_cgroup_v1:
        detail = (
            f"kubelet {facts.target} does not start on cgroup v1 ({refused.reference}); "
            "set failCgroupV1: false in its configuration, or move the node to cgroup v2"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.CPU_STATE_V2, history.MEMORY_MANAGER, history.STATUS_STATE_CHANGED),
    covers=(Hazard.CPU_STATE_UNREADABLE, Hazard.MEMORY_STATE_UNREADABLE, Hazard.POD_STATE_UNREADABLE),
    acceptable=False,
)
def state_files_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read the state files that the old one keeps; otherwise it would not start."""
    for name, data in facts.state.items():
        if _is_read(name, facts.target) and (problem := _unreadable(name, data, facts)) is not None:
            detail = f"kubelet {facts.target} cannot read the state file {name}: {problem}"
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.MEMORY_MANAGER,),
    covers=(Hazard.CPU_STATE_UNREADABLE, Hazard.MEMORY_STATE_UNREADABLE),
    acceptable=False,
)
def state_fits_the_policies(facts: Readiness) -> Iterator[Finding]:
    """The state files were written under the configured policies; otherwise no kubelet would start."""
    for name, key, flag, default in MANAGERS:
        if not _is_read(name, facts.target):
            continue
        configured, kept = facts.layout.settings.text(flag, key, default), _policy(facts.state.get(name, b""))
        if kept and kept.lower() != configured.lower():
            detail = (
                f"{key} is {configured} in the kubelet's configuration, but {name} was kept under {kept}: neither the "
                "new nor the old kubelet would start; take the change back, or drain the node, remove the file and "
                "restart the kubelet first"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _policy(data: bytes) -> str:
    """Return the policy under which a state file was written; empty if it does not name one."""
    try:
        document = json.loads(data) if data.strip() else {}
    except ValueError:  # reported by state_files_are_readable
        return ""
    return str(document.get("policyName") or "") if isinstance(document, dict) else ""


def _is_read(name: str, kubelet: KubeletVersion) -> bool:
    return name != "memory_manager_state" or history.MEMORY_MANAGER.applies_to(kubelet)


def _unreadable(name: str, data: bytes, facts: Readiness) -> str | None:
    try:
        document = json.loads(data) if data.strip() else {}
    except ValueError as error:
        return f"it is damaged ({error}); drain the node, remove the file, and restart the kubelet"
    if name == "pod_status_manager_state":
        changed = history.STATUS_STATE_CHANGED
        if changed.begins_between(facts.current, facts.target):
            return (
                f"its format changed in {changed.since} ({changed.reference}); remove it while the kubelet is stopped"
            )
        return None
    if not data.strip():
        return None
    if not isinstance(document, dict) or "checksum" not in document:
        return "it has no checksum; drain the node, remove the file, and restart the kubelet"
    newer = history.CPU_STATE_V2
    if name == "cpu_manager_state" and newer.begins_between(facts.target, facts.current):
        return f"it has the format of {newer.since}, which older kubelets refuse ({newer.reference})"
    return None


CHECKS: tuple[Check[Readiness], ...] = (
    feature_gates_are_known,
    units_are_as_loaded,
    files_can_be_changed,
    cgroups_stay_where_they_are,
    state_files_are_readable,
    state_fits_the_policies,
)
