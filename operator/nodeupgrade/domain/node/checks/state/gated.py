"""Checks of the state files of features behind a gate: resized pods, and dynamic resource allocation."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, MEMORY_STATE, RESIZE_STATES, STATUS_STATE
from nodeupgrade.kubelet.state import formats
from nodeupgrade.kubelet.state.checksums import Document, claims_are_sound, text_checksum
from nodeupgrade.kubelet.state.documents import fields
from nodeupgrade.kubelethash import KubeletVersion

DAMAGED = "it is damaged; drain the node, remove the file, and restart the kubelet"


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(formats.STATUS_STATE, formats.STATUS_STATE_CHANGED, formats.POD_STATE),
    covers=(Hazard.POD_STATE_UNREADABLE,),
)
def resized_pods_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read what the old one keeps about the resources of pods."""
    by_default = formats.POD_STATE.applies_to(facts.target)
    if not facts.layout.gates.get("InPlacePodVerticalScaling", by_default or facts.layout.resizes_in_place):
        return
    if by_default:
        problems = {name: _pod_state_problem(facts.state.get(name)) for name in RESIZE_STATES}
    elif formats.STATUS_STATE.applies_to(facts.target):
        problems = {STATUS_STATE: _status_problem(facts.state.get(STATUS_STATE), facts.target)}
    else:
        return
    for name, problem in problems.items():
        if problem is not None:
            yield _unreadable(facts, name, problem)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(formats.DRA_STATE_CHANGED, formats.DRA_BY_DEFAULT),
    covers=(Hazard.DRA_STATE_UNREADABLE, Hazard.STATE_UNREADABLE_ON_WAY_BACK),
)
def claims_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read which claims of dynamic resource allocation the old one has prepared."""
    data, changed = facts.state.get(CLAIM_STATE), formats.DRA_STATE_CHANGED
    by_default = formats.DRA_BY_DEFAULT.applies_to(facts.target)
    if data is None or not facts.layout.gates.get("DynamicResourceAllocation", by_default):
        return
    if changed.begins_between(facts.current, facts.target) or changed.begins_between(facts.target, facts.current):
        problem = (
            f"its format changed in {changed.since} ({changed.reference}); drain the node of pods with claims, and "
            "remove the file while the kubelet is stopped"
        )
        yield _unreadable(facts, CLAIM_STATE, problem)
    elif not _is_sound(fields(data)):
        yield _unreadable(facts, CLAIM_STATE, "it is damaged; drain the node of pods with claims, and remove the file")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(formats.POD_LEVEL_STATE,),
    covers=(Hazard.STATE_UNREADABLE_ON_WAY_BACK,),
)
def pod_level_resources_are_not_in_use(facts: Readiness) -> Iterator[Finding]:
    """No kubelet older than 1.36 would have to read the state that 1.36 keeps of resources at the level of pods."""
    changed = formats.POD_LEVEL_STATE
    older = changed.begins_between(facts.target, facts.current) and facts.current and facts.target < facts.current
    if not older or not facts.layout.gates.get("PodLevelResourceManagers"):
        return
    for name in (CPU_STATE, MEMORY_STATE):
        if name in facts.state:
            problem = (
                f"kubelet {facts.current} writes it in another format while PodLevelResourceManagers is on "
                f"({changed.reference}); drain the node, and remove the file while the kubelet is stopped"
            )
            yield _unreadable(facts, name, problem)


def _unreadable(facts: Readiness, name: str, problem: str) -> Finding:
    detail = f"kubelet {facts.target} cannot read the state file {name}: {problem}"
    return Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _pod_state_problem(data: bytes | None) -> str | None:
    """Return why a kubelet cannot read a state file that has a JSON object as text, and its checksum."""
    if data is None:
        return None
    document = fields(data)
    text = document.get("data")
    readable = isinstance(text, str) and bool(fields(text.encode(errors="replace")) or text == "{}")
    return None if readable and text_checksum(str(text)) == document.get("checksum") else DAMAGED


def _status_problem(data: bytes | None, target: KubeletVersion) -> str | None:
    """Return why a kubelet up to 1.32 cannot read the state of resized pods.

    The checksum of its first format covers how Go keeps amounts in memory, which no file shows.
    """
    changed, document = formats.STATUS_STATE_CHANGED, fields(data)
    if data is None or "checksum" not in document:
        return None if data is None else DAMAGED
    if ("data" in document) != changed.applies_to(target):
        return f"its format changed in {changed.since} ({changed.reference}); remove it while the kubelet is stopped"
    return _pod_state_problem(data) if "data" in document else None


def _is_sound(document: Document) -> bool:
    """Report whether a state file has a checksum, and the right one if it is that of a text."""
    text = document.get("data")
    return "checksum" in document and (not isinstance(text, str) or claims_are_sound(text, document["checksum"]))


CHECKS: tuple[Check[Readiness], ...] = (
    resized_pods_are_readable,
    claims_are_readable,
    pod_level_resources_are_not_in_use,
)
