"""Checks of the state files that a kubelet reads when it starts."""

import json
from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

READ = frozenset({"cpu_manager_state", "memory_manager_state", "pod_status_manager_state"})
MANAGERS = (
    ("cpu_manager_state", "cpuManagerPolicy", "cpu-manager-policy", "none"),
    ("memory_manager_state", "memoryManagerPolicy", "memory-manager-policy", "None"),
)
"""Name of the state file, key and flag of its manager's policy, and the policy's default."""


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
    return name in READ and (name != "memory_manager_state" or history.MEMORY_MANAGER.applies_to(kubelet))


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


CHECKS: tuple[Check[Readiness], ...] = (state_files_are_readable, state_fits_the_policies)
