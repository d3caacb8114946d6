"""Checks of what a kubelet has recorded about pods: CPUs and memory of their own, and prepared claims."""

from collections.abc import Iterator, Mapping
from typing import Any

from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.exclusive import has_whole_cpus, is_guaranteed
from nodeupgrade.domain.node.checks.admission.facts import Admission, rejected, spec_of
from nodeupgrade.domain.pods import Pod, PodContainer, Role
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, MEMORY_STATE
from nodeupgrade.kubelet.state import formats
from nodeupgrade.kubelet.state.documents import fields


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(formats.CPU_STATE_V2,),
    covers=(Hazard.EXCLUSIVE_RESOURCES_LOST,),
)
def exclusive_cpus_are_recorded(facts: Admission) -> Iterator[Finding]:
    """Every running container that has CPUs of its own is in the state file of the CPU manager.

    For one that is not, a kubelet that starts takes other CPUs, and rejects the pod if there are not enough.
    """
    if not facts.settings.pins_cpus:
        return
    entries = _entries(facts.state.get(CPU_STATE))
    if any(not isinstance(entry, Mapping) for entry in entries.values()):
        return  # the first format names containers, not pods; the kubelet assigns them when it starts
    for pod, container in _holders(facts):
        if has_whole_cpus(container) and container.name not in entries.get(pod.ref.uid, ()):
            yield _unrecorded(pod, container, CPU_STATE, "CPUs")


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(formats.MEMORY_MANAGER,),
    covers=(Hazard.EXCLUSIVE_RESOURCES_LOST,),
)
def exclusive_memory_is_recorded(facts: Admission) -> Iterator[Finding]:
    """Every running container of a guaranteed pod is in the state file of a Static memory manager."""
    if not facts.settings.pins_memory:
        return
    if facts.current is None or not formats.MEMORY_MANAGER.applies_to(facts.current):
        return  # nothing can be recorded yet
    entries = _entries(facts.state.get(MEMORY_STATE))
    for pod, container in _holders(facts):
        found = entries.get(pod.ref.uid)
        if not isinstance(found, Mapping) or container.name not in found:
            yield _unrecorded(pod, container, MEMORY_STATE, "memory")


@check(Reason.CONTAINER_COULD_NOT_RESTART, covers=(Hazard.CLAIMS_LOST,))
def claims_are_recorded(facts: Admission) -> Iterator[Finding]:
    """The kubelet has recorded the claims of every pod that uses some.

    Claims are prepared when a sandbox is made, and not again when a kubelet starts. A running container keeps its
    devices; one that is started anew gets them from the record.
    """
    recorded = (facts.state.get(CLAIM_STATE) or b"").decode(errors="replace")
    lost = [str(pod.ref) for pod in facts.admitted() if _uses_claims(pod) and pod.ref.uid not in recorded]
    if lost:
        detail = (
            f"the claims of {counted(len(lost), 'pod')} are not in {CLAIM_STATE}, so a kubelet that starts could not "
            f"start their containers again: {named(lost)}; delete the pods"
        )
        yield Finding(reason=Reason.CONTAINER_COULD_NOT_RESTART, detail=detail)


def _holders(facts: Admission) -> Iterator[tuple[Pod, PodContainer]]:
    """Return the running containers of guaranteed pods, except where resources are those of the pod itself."""
    for pod in facts.admitted():
        if spec_of(pod).get("resources") or not is_guaranteed(facts, pod):
            continue
        running = {name for name, _ in pod.running}
        for container in pod.containers:
            if container.role in {Role.REGULAR, Role.SIDECAR} and (pod.from_manifest or container.name in running):
                yield pod, container


def _entries(data: bytes | None) -> Mapping[str, Any]:
    """Return what a state file records, by UID of the pod; damage is reported by ``state_files_are_readable``."""
    entries = fields(data).get("entries")
    return entries if isinstance(entries, Mapping) else {}


def _unrecorded(pod: Pod, container: PodContainer, file: str, what: str) -> Finding:
    return rejected(
        pod,
        f"its container {container.name} has {what} of its own that {file} does not name, so a kubelet that starts "
        f"allocates {what} anew, and kills the pod if there are not enough; delete the pod first",
    )


def _uses_claims(pod: Pod) -> bool:
    running = {name for name, _ in pod.running}
    using = {c.name for c in pod.containers if (c.spec.get("resources") or {}).get("claims")}
    return bool(running & using)
