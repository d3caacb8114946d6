"""Checks of the state files that a kubelet reads when it starts."""

from collections.abc import Callable, Iterator, Mapping

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet.layout import CPU_STATE, MEMORY_STATE
from nodeupgrade.kubelet.state import formats
from nodeupgrade.kubelet.state.checksums import Document, cpu_formats, memory_is_sound, text_checksum
from nodeupgrade.kubelet.state.documents import fields, read_fields
from nodeupgrade.kubelethash import KubeletVersion

POLICIES = (
    (CPU_STATE, "cpuManagerPolicy", "cpu-manager-policy", "none"),
    (MEMORY_STATE, "memoryManagerPolicy", "memory-manager-policy", "None"),
)
"""Name of the state file, key and flag of its manager's policy, and the policy's default."""

REMEDY = "drain the node, remove the file, and restart the kubelet"
DAMAGED = f"it is damaged (its checksum is wrong); {REMEDY}"


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(formats.CPU_STATE_V2, formats.CPU_STATE_V1_UNREAD, formats.STATE_AS_TEXT, formats.MEMORY_MANAGER),
    covers=(Hazard.CPU_STATE_UNREADABLE, Hazard.MEMORY_STATE_UNREADABLE),
    acceptable=False,
)
def state_files_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read the state files of its CPU and memory managers; otherwise it would not start."""
    for name, problem_of in PROBLEMS.items():
        data = facts.state.get(name)
        problem = _problem(data, facts.target, problem_of) if data is not None and _is_read(name, facts) else None
        if problem is not None:
            detail = f"kubelet {facts.target} cannot read the state file {name}: {problem}"
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(formats.MEMORY_MANAGER,),
    covers=(Hazard.CPU_STATE_UNREADABLE, Hazard.MEMORY_STATE_UNREADABLE),
    acceptable=False,
)
def state_fits_the_policies(facts: Readiness) -> Iterator[Finding]:
    """The state files were written under the configured policies; otherwise no kubelet would start."""
    for name, key, flag, default in POLICIES:
        if not _is_read(name, facts):
            continue
        configured = facts.layout.settings.text(flag, key, default)
        kept = str(fields(facts.state.get(name)).get("policyname") or "")
        if kept and kept.lower() != configured.lower():
            detail = (
                f"{key} is {configured} in the kubelet's configuration, but {name} was kept under {kept}: neither the "
                "new nor the old kubelet would start; take the change back, or drain the node, remove the file and "
                "restart the kubelet first"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _is_read(name: str, facts: Readiness) -> bool:
    return name != MEMORY_STATE or formats.MEMORY_MANAGER.applies_to(facts.target)


def _problem(
    data: bytes, target: KubeletVersion, problem_of: Callable[[Document, KubeletVersion], str | None]
) -> str | None:
    try:
        document = read_fields(data)
    except ValueError as error:
        return f"it is damaged ({error}); {REMEDY}"
    if formats.STATE_AS_TEXT.applies_to(target) and isinstance(document.get("data"), str):
        return None if text_checksum(document["data"]) == document.get("datachecksum") else DAMAGED
    return problem_of(document, target)


def _of_cpus(document: Document, target: KubeletVersion) -> str | None:
    found, second, dropped = cpu_formats(document), formats.CPU_STATE_V2, formats.CPU_STATE_V1_UNREAD
    if found is None:
        return None
    if not found:
        return DAMAGED
    if not second.applies_to(target) and 1 not in found:
        return f"it has the format of {second.since}, which older kubelets refuse ({second.reference})"
    if dropped.applies_to(target) and 2 not in found:
        return (
            f"it has the format from before {second.since}, which kubelets from {dropped.since} on refuse "
            f"({dropped.reference}); remove the file and restart the kubelet, which writes it anew, while no pod has "
            "CPUs of its own"
        )
    return None


def _of_memory(document: Document, _target: KubeletVersion) -> str | None:
    return None if memory_is_sound(document) else DAMAGED


PROBLEMS: Mapping[str, Callable[[Document, KubeletVersion], str | None]] = {
    CPU_STATE: _of_cpus,
    MEMORY_STATE: _of_memory,
}
CHECKS: tuple[Check[Readiness], ...] = (state_files_are_readable, state_fits_the_policies)
