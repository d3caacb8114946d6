"""Checks of the state files of features behind a gate: resized pods, and dynamic resource allocation."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history

POD_STATES = ("allocated_pods_state", "actuated_pods_state")
DRA_STATE = "dra_manager_state"
MANAGERS = ("cpu_manager_state", "memory_manager_state")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.POD_STATE,),
    covers=(Hazard.POD_STATE_UNREADABLE,),
)
def resized_pods_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read what the old one keeps about the resources of pods."""
    if not facts.layout.gates.get("InPlacePodVerticalScaling", history.POD_STATE.applies_to(facts.target)):
        return
    for name in POD_STATES:
        data = facts.state.get(name)
        if data is not None and not _is_pod_state(_fields(data)):
            yield _unreadable(facts, name, "it is damaged; drain the node, remove the file, and restart the kubelet")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.DRA_STATE_CHANGED, history.DRA_BY_DEFAULT),
    covers=(Hazard.DRA_STATE_UNREADABLE, Hazard.STATE_UNREADABLE_ON_WAY_BACK),
)
def claims_are_readable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet can read which claims of dynamic resource allocation the old one has prepared."""
    data, changed = facts.state.get(DRA_STATE), history.DRA_STATE_CHANGED
    by_default = history.DRA_BY_DEFAULT.applies_to(facts.target)
    if data is None or not facts.layout.gates.get("DynamicResourceAllocation", by_default):
        return
    if changed.begins_between(facts.current, facts.target) or changed.begins_between(facts.target, facts.current):
        problem = (
            f"its format changed in {changed.since} ({changed.reference}); drain the node of pods with claims, and "
            "remove the file while the kubelet is stopped"
        )
        yield _unreadable(facts, DRA_STATE, problem)
    elif not _is_sound(_fields(data)):
        yield _unreadable(facts, DRA_STATE, "it is damaged; drain the node of pods with claims, and remove the file")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.POD_LEVEL_STATE,),
    covers=(Hazard.STATE_UNREADABLE_ON_WAY_BACK,),
)
def pod_level_resources_are_not_in_use(facts: Readiness) -> Iterator[Finding]:
    """No kubelet older than 1.36 would have to read the state that 1.36 keeps of resources at the level of pods."""
    changed = history.POD_LEVEL_STATE
    older = changed.begins_between(facts.target, facts.current) and facts.current and facts.target < facts.current
    if not older or not facts.layout.gates.get("PodLevelResourceManagers"):
        return
    for name in MANAGERS:
        if name in facts.state:
            problem = (
                f"kubelet {facts.current} writes it in another format while PodLevelResourceManagers is on "
                f"({changed.reference}); drain the node, and remove the file while the kubelet is stopped"
            )
            yield _unreadable(facts, name, problem)


def _unreadable(facts: Readiness, name: str, problem: str) -> Finding:
    detail = f"kubelet {facts.target} cannot read the state file {name}: {problem}"
    return Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _fields(data: bytes) -> Mapping[str, Any]:
    """Return the fields of a state file, with names in lower case, as kubelets compare them; empty if it is damaged."""
    try:
        document = json.loads(data)
    except ValueError:
        return {}
    return {str(name).lower(): value for name, value in document.items()} if isinstance(document, dict) else {}


def _is_pod_state(fields: Mapping[str, Any]) -> bool:
    """Report whether a state file has a checksum, and a JSON object as text."""
    text = fields.get("data")
    return "checksum" in fields and isinstance(text, str) and bool(_fields(text.encode()) or text == "{}")


def _is_sound(fields: Mapping[str, Any]) -> bool:
    """Report whether a state file has a checksum, and the right one if it is that of a text."""
    text = fields.get("data")
    return "checksum" in fields and (not isinstance(text, str) or crc32(text.encode()) == fields["checksum"])


CHECKS: tuple[Check[Readiness], ...] = (
    resized_pods_are_readable,
    claims_are_readable,
    pod_level_resources_are_not_in_use,
)
