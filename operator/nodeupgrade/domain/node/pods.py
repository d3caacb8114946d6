"""Pods as the API serves them, reduced to what decides about their containers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nodeupgrade.api.values import ContainerId, PodRef, PodUid
from nodeupgrade.kubelethash import is_sidecar

CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"

Json = Mapping[str, Any]  # Any: raw JSON of objects that are not ours


class Role(StrEnum):
    """What a container is to its pod; kubelets treat each kind differently."""

    REGULAR = "regular"
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always (kubelet 1.28+); compared from 1.32 (kubernetes #126525)."""
    INIT = "init"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """One container of a pod's spec, with the spec as served."""

    name: str
    role: Role
    spec: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePod:
    """One pod.

    Attributes:
        ref: names the pod as the runtime knows it; for a mirror pod with the UID of its static pod.
        from_manifest: read from a manifest on the node, because the API server has no mirror of it.
        terminating: deletion was asked for.
        finished: phase Succeeded or Failed.
        running: name and id of every container that is shown running.
    """

    ref: PodRef
    containers: tuple[PodContainer, ...]
    restart_policy: str
    terminating: bool
    finished: bool
    from_manifest: bool
    raw: Json
    running: tuple[tuple[str, ContainerId], ...] = ()

    def container(self, name: str) -> PodContainer | None:
        """The container with this name."""
        return next((c for c in self.containers if c.name == name), None)


def view(pod: Json) -> NodePod:
    """Read a pod as the API serves it."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    uid = annotations.get(CONFIG_HASH) if CONFIG_MIRROR in annotations else metadata.get("uid")
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return NodePod(
        ref=PodRef(
            namespace=str(metadata.get("namespace", "default")),
            name=str(metadata.get("name", "")),
            uid=PodUid(str(uid or "")),
        ),
        containers=tuple(_containers(spec)),
        restart_policy=str(spec.get("restartPolicy") or "Always"),
        terminating=metadata.get("deletionTimestamp") is not None,
        finished=status.get("phase") in {"Succeeded", "Failed"},
        from_manifest=False,
        raw=pod,
        running=tuple(_running(status)),
    )


def _running(status: Json) -> Iterator[tuple[str, ContainerId]]:
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(key) or ():
            if "running" in (container.get("state") or {}):
                container_id = str(container.get("containerID") or "").rpartition("/")[2]
                yield str(container.get("name")), ContainerId(container_id)


def _containers(spec: Json) -> Iterator[PodContainer]:
    for container in spec.get("initContainers") or ():
        role = Role.SIDECAR if is_sidecar(container) else Role.INIT
        yield PodContainer(name=str(container.get("name")), role=role, spec=container)
    for container in spec.get("containers") or ():
        yield PodContainer(name=str(container.get("name")), role=Role.REGULAR, spec=container)
    for container in spec.get("ephemeralContainers") or ():
        yield PodContainer(name=str(container.get("name")), role=Role.EPHEMERAL, spec=container)
