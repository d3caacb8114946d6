"""The view of a pod, for all code that decides about containers, restarts, readiness or placement.

Fields that every caller needs are parsed at once; the rest is read from the pod's JSON on access, because a rollout
reads many pods and uses little of each.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import HOLD_ANNOTATION, annotation_reason
from nodeupgrade.api.values import ContainerId, PodRef, PodUid
from nodeupgrade.kubelet.probe_delay import exposure
from nodeupgrade.kubelethash import is_sidecar
from nodeupgrade.text import known_time

CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
_WATCHED = ("name", "image", "resources", "resizePolicy", "restartPolicy")
_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/part-of")
"""Those by which agent pods are known."""
LARGEST_WATCHED = 256 * 1024
"""Size, as JSON, of the largest part of a spec that is watched: no node runs as many containers for one pod."""
_HANDLERS = frozenset({"exec", "grpc", "httpGet", "tcpSocket"})


class Role(StrEnum):
    """The kind of a container within its pod; kubelets treat each kind differently."""

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

    @property
    def resources(self) -> Mapping[str, Any]:
        """The resources that it asks for, with their amounts."""
        resources = self.spec.get("resources") or {}
        named = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        return {name: amount for name, amount in named.items() if str(amount) != "0"}

    @property
    def stop_command(self) -> tuple[str, ...]:
        """The command of its preStop hook; empty if it has none, or if a kubelet may execute it for another purpose.

        Kubelets replace ``$(NAME)`` in the commands of probes, but not in those of hooks.
        """
        lifecycle = self.spec.get("lifecycle") or {}
        command = _command(lifecycle.get("preStop"))
        probes = (_command(self.spec.get(probe)) for probe in ("livenessProbe", "readinessProbe", "startupProbe"))
        if command == _command(lifecycle.get("postStart")) or any(_may_become(probe, command) for probe in probes):
            return ()
        return command


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """The status of a container as the API reports it."""

    name: str
    container_id: str
    restart_count: int
    running: bool
    previous_finished_at: datetime | None = None  # when the last instance that ended did so; None if none did
    previous_exit_code: int | None = None  # with which code that instance ended; None if it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod."""

    ref: PodRef  # identifies the pod as the runtime knows it; for a mirror pod, with the UID of its static pod
    containers: tuple[PodContainer, ...]
    restart_policy: str
    terminating: bool  # whether it is being deleted
    finished: bool  # whether its phase is Succeeded or Failed, so that none of its containers will run again
    from_manifest: bool  # whether it was read from a manifest on the node because the API server has no mirror pod
    raw: Json
    running: tuple[tuple[str, ContainerId], ...] = ()  # name and ID of every container that is reported running

    def __str__(self) -> str:
        return str(self.ref)

    def container(self, name: str) -> PodContainer | None:
        """Return the container with this name, or None."""
        return next((c for c in self.containers if c.name == name), None)

    @property
    def uid(self) -> str:
        """Its UID in the API; for a mirror pod this is not the UID of the static pod."""
        return str(self.metadata["uid"])

    @property
    def generation(self) -> int:
        """How often its spec was set, as the API server counts from 1.33 on (KEP-5067); otherwise 0."""
        return self.metadata.get("generation") or 0

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.get("annotations") or {}

    @property
    def mirror(self) -> bool:
        """Whether it is the mirror pod of a static pod."""
        return CONFIG_MIRROR in self.annotations

    @property
    def static(self) -> bool:
        """Whether it is a static pod, as its manifest or its mirror pod shows."""
        return self.from_manifest or self.mirror

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return any(c.get("type") == "Ready" and c.get("status") == "True" for c in self.status.get("conditions") or ())

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted, or has finished."""
        return self.terminating or self.finished

    @property
    def hold(self) -> str | None:
        """Why an annotation asks to wait with its node; None if none does."""
        return annotation_reason(self.annotations, HOLD_ANNOTATION)

    @property
    def whole(self) -> bool:
        """Whether all its regular containers are running, and it has at least one."""
        statuses = self.status.get("containerStatuses") or ()
        return bool(statuses) and all("running" in (status.get("state") or {}) for status in statuses)

    @property
    def statuses(self) -> tuple[ContainerStatus, ...]:
        """The statuses of its init containers, sidecars and regular containers."""
        return tuple(map(_container_status, container_statuses(self.status)))

    @property
    def exposure(self) -> timedelta:
        """How long a freshly started kubelet may need to probe it."""
        return exposure(dict(self.raw))

    @property
    def metadata(self) -> Json:
        """Its metadata as served."""
        return self.raw.get("metadata") or {}

    @property
    def spec(self) -> Json:
        """Its spec as served."""
        return self.raw.get("spec") or {}

    @property
    def status(self) -> Json:
        """Its status as served."""
        return self.raw.get("status") or {}

    @property
    def states(self) -> Mapping[str, Json]:
        """The statuses of its init containers, sidecars and regular containers as served, by name."""
        return {str(status.get("name")): status for status in container_statuses(self.status)}


def container_statuses(status: Json) -> list[Json]:
    """Return the statuses of init containers, sidecars and regular containers from a pod's status."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def for_admission(pod: Json) -> Json:
    """Return of a pod as served what tells whether it objects to the upgrade of its node, a small part of it."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    annotations, affinity = metadata.get("annotations") or {}, spec.get("affinity") or {}
    kept = _some(annotations, HOLD_ANNOTATION, CONFIG_HASH, CONFIG_MIRROR)
    placed = _some(spec, "nodeSelector", "tolerations")
    if "nodeAffinity" in affinity:
        placed["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    return {
        "metadata": {
            **_some(metadata, "namespace", "name", "uid", "labels", "deletionTimestamp"),
            "annotations": kept,
        },
        "spec": placed,
        "status": {"phase": status.get("phase")},
    }


def for_watch(pod: Json) -> Json:
    """Return of a pod as served what is compared while it is watched: pods may be many, and their specs large."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    lists = ("initContainers", "containers", "ephemeralContainers")
    watched = {each: [_watched(container) for container in spec.get(each) or ()] for each in lists}
    return {
        "metadata": {
            **_some(metadata, "namespace", "name", "uid", "resourceVersion"),
            **_some(metadata, "deletionTimestamp", "deletionGracePeriodSeconds"),
            "labels": _some(metadata.get("labels") or {}, *_LABELS),
            "annotations": _some(metadata.get("annotations") or {}, CONFIG_HASH, CONFIG_MIRROR),
        },
        "spec": watched if len(json.dumps(watched)) <= LARGEST_WATCHED else {},
        "status": status,
    }


def _some(part: Json, *names: str) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


def _watched(container: Json) -> Json:
    kept = _some(container, *_WATCHED)
    for kind in ("startupProbe", "readinessProbe"):
        if probe := container.get(kind):
            kept[kind] = {name: value for name, value in probe.items() if name not in _HANDLERS}
    return kept


def parse_pod(pod: Json) -> Pod:
    """Return the view of a pod as the API serves it."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    uid = annotations.get(CONFIG_HASH) if CONFIG_MIRROR in annotations else metadata.get("uid")
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return Pod(
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


def _command(handler: Json | None) -> tuple[str, ...]:
    return tuple(map(str, ((handler or {}).get("exec") or {}).get("command") or ()))


def _may_become(probe: tuple[str, ...], command: tuple[str, ...]) -> bool:
    """Report whether a probe's command may be this one once its variables are replaced."""
    return len(probe) == len(command) and all("$" in old or old == new for old, new in zip(probe, command, strict=True))


def _container_status(body: Json) -> ContainerStatus:
    ended: Json = (body.get("lastState") or {}).get("terminated") or {}
    now: Json = (body.get("state") or {}).get("terminated") or {}
    ended = now if now.get("finishedAt") else ended
    return ContainerStatus(
        name=body["name"],
        container_id=body.get("containerID", ""),
        restart_count=body.get("restartCount", 0),
        running="running" in (body.get("state") or {}),
        previous_finished_at=known_time(ended.get("finishedAt")),
        previous_exit_code=ended.get("exitCode"),
    )
