"""What has to be known of a Node, read from its JSON; everything else is left alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import NodeName

CORDON_ANNOTATION = "nodeupgrade.dev/cordoned-by"
"""On a Node: UID of the NodeUpgrade that cordoned it. Whoever's UID it is may uncordon, and nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A Node.

    Attributes:
        ready_changed: when it last became Ready or ceased to be; None if it does not say.
        runtime: as the node reports it, with its scheme.
        platform: keyed as in spec.artifact.
    """

    name: NodeName
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    cordoned_by: str
    ready: bool
    kubelet_version: str
    runtime: str
    platform: str
    ready_changed: datetime | None = None

    @property
    def runtime_name(self) -> str:
        """Which runtime it is, without its version; empty if the node does not report one."""
        name, scheme, _ = self.runtime.partition("://")
        return name if scheme else ""


def view_node(body: Json) -> NodeView:
    """Read a Node."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    info = status.get("nodeInfo", {})
    ready: Json = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), {})
    changed = ready.get("lastTransitionTime")
    return NodeView(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(key=t["key"], effect=t["effect"], value=t.get("value", "")) for t in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        cordoned_by=(metadata.get("annotations") or {}).get(CORDON_ANNOTATION, ""),
        ready=ready.get("status") == "True",
        kubelet_version=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        platform=f"{info.get('operatingSystem', '')}-{info.get('architecture', '')}",
        ready_changed=datetime.fromisoformat(changed) if changed else None,
    )
