"""What the rollout needs to know of Nodes and Pods, read from their JSON; everything else is left alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.nodes import Requirement
from nodeupgrade.api.values import NodeName

CORDON_ANNOTATION = "nodeupgrade.dev/cordoned-by"
"""On a Node: UID of the NodeUpgrade that cordoned it. Whoever's UID it is may uncordon, and nobody else."""

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

KUBELET_WORDS = 256
"""Characters of a kubelet's explanation that are passed on."""

RUN_LABEL = "nodeupgrade.dev/run"
"""On an agent pod: the run it serves."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Expressions over labels and over fields (only ``metadata.name`` exists); all must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """A container as the API reports it; ``running`` now, and when the instance before it ended."""

    name: str
    container_id: str
    restart_count: int
    running: bool
    previous_finished_at: datetime | None = None
    startup_probed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A Pod. ``affinity`` is None without required node affinity; else one of its terms must match."""

    namespace: str
    name: str
    uid: str
    phase: str
    mirror: bool
    deleting: bool
    ready: bool
    node_selector: Mapping[str, str]
    affinity: tuple[NodeSelectorTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    containers: tuple[ContainerView, ...]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether none of its containers will run again."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPodView:
    """The agent's pod on one node.

    Attributes:
        started: whether the agent itself has ever run (its init containers touch nothing).
        blocked: why its containers cannot start, e.g. ``ImagePullBackOff``, or why the kubelet rejected the pod,
            e.g. ``OutOfpods``, with the kubelet's own words; empty when nothing is known.
        ended: why a container of it ended other than well, likewise.
        deleted_at: when it is to be gone, once somebody wants it to.
        blocked_on_artifact: whether it is the artifact's image that cannot be had.
    """

    name: str
    uid: str
    node: NodeName
    run_id: str
    phase: str
    deleting: bool
    started: bool
    created_at: datetime
    deleted_at: datetime | None = None
    blocked: str = ""
    ended: str = ""
    blocked_on_artifact: bool = False

    @property
    def over(self) -> bool:
        """Whether the pod will do nothing more."""
        return self.phase in {"Succeeded", "Failed"}


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


def view_pod(body: Json) -> PodView:
    """Read a Pod."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    declared = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    startup_probed = frozenset(container["name"] for container in declared if container.get("startupProbe"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        phase=status.get("phase", ""),
        mirror=MIRROR_ANNOTATION in (metadata.get("annotations") or {}),
        deleting="deletionTimestamp" in metadata,
        ready=is_ready(body),
        node_selector=spec.get("nodeSelector") or {},
        affinity=None if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ())),
        tolerations=tuple(map(_toleration, spec.get("tolerations") or ())),
        containers=tuple(_container(body, startup_probed) for body in _container_statuses(status)),
    )


def view_agent_pod(body: Json, agent_container: str, artifact_container: str) -> AgentPodView:
    """Read an agent pod, given the names of the container that acts and of the one that brings the artifact."""
    metadata, status = body["metadata"], body.get("status", {})
    deleted = metadata.get("deletionTimestamp")
    rejected = [(_why(status), "")] if status.get("phase") == "Failed" and status.get("reason") else []
    blocked = rejected or [
        (_why(waiting), c["name"])
        for c in _container_statuses(status)
        if (waiting := (c.get("state") or {}).get("waiting")) and _is_blocking(str(waiting.get("reason", "")))
    ]
    acting = [c for c in status.get("containerStatuses") or () if c["name"] == agent_container]
    return AgentPodView(
        name=metadata["name"],
        uid=metadata["uid"],
        node=NodeName(body.get("spec", {}).get("nodeName", "")),
        run_id=(metadata.get("labels") or {}).get(RUN_LABEL, ""),
        phase=status.get("phase", ""),
        deleting=deleted is not None,
        started=any(c.get("containerID") or "waiting" not in (c.get("state") or {"waiting": {}}) for c in acting),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleted_at=datetime.fromisoformat(deleted) if deleted else None,
        blocked=blocked[0][0] if blocked else "",
        ended=next((_why(state) for state in _terminated(status) if state.get("exitCode")), ""),
        blocked_on_artifact=any(name == artifact_container for _, name in blocked),
    )


def is_ready(pod: Json) -> bool:
    """Whether a Pod's condition Ready is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _why(told: Json) -> str:
    """Give the kubelet's reason and its words for it."""
    words = " ".join(str(told.get("message") or "").split())[:KUBELET_WORDS]
    return f"{told.get('reason', '')}: {words}".strip(": ")


def _terminated(status: Json) -> list[Json]:
    return [ended for c in _container_statuses(status) if (ended := (c.get("state") or {}).get("terminated"))]


def _is_blocking(reason: str) -> bool:
    """Whether a waiting reason of the kubelet's speaks of more than ordinary start-up."""
    return reason not in {"", "PodInitializing", "ContainerCreating"}


def _container_statuses(status: Json) -> list[Json]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container(body: Json, startup_probed: frozenset[str]) -> ContainerView:
    finished = ((body.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    if (ended := (body.get("state") or {}).get("terminated")) is not None:
        finished = ended.get("finishedAt") or finished
    return ContainerView(
        name=body["name"],
        container_id=body.get("containerID", ""),
        restart_count=body.get("restartCount", 0),
        running="running" in (body.get("state") or {}),
        previous_finished_at=datetime.fromisoformat(finished) if finished else None,
        startup_probed=body["name"] in startup_probed,
    )


def _term(body: Json) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        expressions=tuple(map(_requirement, body.get("matchExpressions") or ())),
        fields=tuple(map(_requirement, body.get("matchFields") or ())),
    )


def _requirement(body: Any) -> Requirement:
    return Requirement(key=body["key"], operator=body["operator"], values=tuple(body.get("values") or ()))


def _toleration(body: Any) -> Toleration:
    return Toleration(
        key=body.get("key", ""),
        operator=body.get("operator") or "Equal",
        value=body.get("value", ""),
        effect=body.get("effect", ""),
    )
