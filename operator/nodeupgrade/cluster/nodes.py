"""The view of a Node: the fields that we use, read from its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import (
    CORDON_ANNOTATION,
    HOLD_ANNOTATION,
    REBOOT_ANNOTATION,
    SKIP_ANNOTATION,
    annotation_reason,
)
from nodeupgrade.api.values import NodeName
from nodeupgrade.kubelet.supported import unsupported_version
from nodeupgrade.text import known_time

CORDON_MANAGER = "nodeupgrade"
"""The field manager that is recorded for our cordons."""

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions under which a kubelet evicts pods."""
MAINTENANCE_IN_PROGRESS = "MaintenanceInProgress"
MAINTENANCE = (MAINTENANCE_IN_PROGRESS, "DrainInProgress")
"""Conditions by which controllers say that they work on a node (kubernetes enhancement 5683)."""
MAINTENANCE_REASON = "KubeletUpgrade"
"""The reason by which a condition MaintenanceInProgress is known to be ours. Who set one is not recorded otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One Node."""

    name: NodeName
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    # UID of the NodeUpgrade whose cordon this is; empty if there is none, or if another client has cordoned the node
    # since
    cordoned_by: str
    ready: bool
    kubelet_version: str
    runtime: str  # ``containerRuntimeVersion`` as the node reports it: name, ``://``, version
    platform: str  # operating system and architecture, such as ``linux-amd64``, as in spec.artifact
    # name and version of the operating system's distribution; empty if the node does not report them
    os_image: str = ""
    created_at: datetime | None = None  # when the Node was created; None if it does not say
    ready_changed: datetime | None = None  # when its Ready condition last changed; None if it does not say
    pressures: tuple[str, ...] = ()  # the conditions among PRESSURES that are True
    maintenance: tuple[str, ...] = ()  # the conditions among MAINTENANCE that are True, and not ours
    announced: bool = False  # whether the node has our own condition MaintenanceInProgress
    reboots: bool = False  # whether kured says that it reboots the node
    skip: str | None = None  # why an annotation asks to leave the node out; None if none does
    hold: str | None = None  # why an annotation asks to wait with the node; None if none does
    # the annotation of a cordon that is gone: the node was uncordoned, and maybe cordoned again. Empty if there is
    # none.
    stale_mark: str = ""

    @property
    def unsupported(self) -> str | None:
        """Why container hashes of its kubelet cannot be computed; None if they can."""
        return unsupported_version(self.kubelet_version)

    @property
    def runtime_name(self) -> str:
        """Name of the runtime, without its version; empty if the node does not report one."""
        name, scheme, _ = self.runtime.partition("://")
        return name if scheme else ""


def view_node(body: Json) -> NodeView:
    """Return the view of a Node."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    info = status.get("nodeInfo", {})
    conditions: list[Json] = list(status.get("conditions") or ())
    ready: Json = next((c for c in conditions if c.get("type") == "Ready"), {})
    announced = any(map(_is_ours, conditions))
    present = {c.get("type") for c in conditions if c.get("status") == "True" and not _is_ours(c)}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    unschedulable, mark = bool(spec.get("unschedulable")), annotations.get(CORDON_ANNOTATION, "")
    by_others = unschedulable and _is_cordoned_by_others(metadata)
    return NodeView(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(key=t["key"], effect=t["effect"], value=t.get("value", "")) for t in spec.get("taints") or ()
        ),
        unschedulable=unschedulable,
        cordoned_by="" if by_others else mark,
        ready=ready.get("status") == "True",
        kubelet_version=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        platform=f"{info.get('operatingSystem', '')}-{info.get('architecture', '')}",
        os_image=info.get("osImage", ""),
        created_at=known_time(metadata.get("creationTimestamp")),
        ready_changed=known_time(ready.get("lastTransitionTime")),
        pressures=tuple(pressure for pressure in PRESSURES if pressure in present),
        maintenance=tuple(condition for condition in MAINTENANCE if condition in present),
        announced=announced,
        reboots=REBOOT_ANNOTATION in annotations,
        skip=annotation_reason(annotations, SKIP_ANNOTATION),
        hold=annotation_reason(annotations, HOLD_ANNOTATION),
        stale_mark="" if unschedulable and not by_others else mark,
    )


def _is_ours(condition: Json) -> bool:
    return condition.get("type") == MAINTENANCE_IN_PROGRESS and condition.get("reason") == MAINTENANCE_REASON


def _is_cordoned_by_others(metadata: Json) -> bool:
    """Report whether another client has set ``spec.unschedulable``, according to ``metadata.managedFields``.

    The annotation alone does not show it: ``kubectl uncordon`` leaves it. Our cordon writes both in one patch, so that
    they have the same manager. API servers before 1.18 record no managers.
    """
    entries = [(entry.get("manager"), entry.get("fieldsV1") or {}) for entry in metadata.get("managedFields") or ()]
    owners = [(who, fields) for who, fields in entries if "f:unschedulable" in (fields.get("f:spec") or {})]
    return any(who != CORDON_MANAGER and not _marks(fields) for who, fields in owners)


def _marks(fields: Json) -> bool:
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    return f"f:{CORDON_ANNOTATION}" in annotations
