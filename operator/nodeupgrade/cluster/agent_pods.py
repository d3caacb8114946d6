"""Agent pods: which of a node's pods they are, and whether the agent runs and, if it cannot, why."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.task.run_id import task_run
from nodeupgrade.api.values import NodeName, PodUid, RunId
from nodeupgrade.cluster.pods import Pod, container_statuses
from nodeupgrade.text import known_time, lines, one_line, trimmed

KUBELET_WORDS = 320
"""Maximum length, in characters, of a kubelet message that is passed on."""

RUN_LABEL = "nodeupgrade.dev/run"
"""Label on an agent pod: ID of the run that it serves."""

COMPONENT_LABEL = "app.kubernetes.io/component"

_PULLS = re.compile(r"\w*Image\w*|RegistryUnavailable|SignatureValidationFailed", re.ASCII)
"""Reasons for which a container waits because its image cannot be had."""

_STARTS = frozenset({"", "PodInitializing", "ContainerCreating"})
"""Reasons for which a container waits in any ordinary start."""

_BACKS_OFF = re.compile(r'ImagePullBackOff(: Back-off pulling image "[^"]*")?')
"""What a kubelet before 1.32 says until it tries to pull an image again: not why it could not."""


class PodRole(StrEnum):
    """What a pod does for a run; the value of COMPONENT_LABEL."""

    AGENT = "agent"
    ARTIFACT = "artifact"
    """It takes the kubelet out of its image, and keeps it for the agent."""


BORROWED = "/staging/kubelet"
"""Where a kubelet is that is only examined, in the agent's pod."""

STAGING, KUBELET_FROM_IMAGE = "staging", "kubelet"
"""The volume of the artifact's pod with what was taken out of the image, and the name of the kubelet in it."""

FROM_OBJECTS, CONTENT = "/files", "content"
"""Where files from ConfigMaps and Secrets are, each in a directory of its own, and its name there."""


def file_from_image(index: int) -> str:
    """Return the name of a file of ``spec.files`` from the artifact's image, in the volume of the artifact's pod."""
    return f"file-{index}"


def volume_on_node(kubelet_root: str, pod: PodUid) -> PurePosixPath:
    """Return the directory on a node with what was taken out of the artifact's image."""
    return PurePosixPath(kubelet_root) / "pods" / pod / "volumes" / "kubernetes.io~empty-dir" / STAGING


def file_from_object(index: int) -> str:
    """Return the directory in which a file of ``spec.files`` from a ConfigMap or Secret is mounted."""
    return f"{FROM_OBJECTS}/{index}"


def agents_of(attempt: RunId, namespace: str, pods: Iterable[Pod]) -> frozenset[PodUid]:
    """Return those of a node's pods that serve a run. They exist only for it, and it goes on without them.

    Anybody may label a pod. So only the operator's own namespace counts, and no static pod, whose UID is a manifest's.
    """
    own = (pod for pod in pods if pod.ref.namespace == namespace and not pod.static)
    return frozenset(pod.ref.uid for pod in own if pod.labels.get(RUN_LABEL) == task_run(attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPodView:
    """The agent's pod on one node, or that of its artifact."""

    name: str
    uid: str
    node: NodeName
    run_id: str
    phase: str
    deleting: bool
    # whether the agent container has ever run (init containers change nothing on the node); of the artifact's pod,
    # whether its files are there
    started: bool
    created_at: datetime
    # when the agent container was started, as the kubelet reports; None if it does not run
    running_since: datetime | None = None
    deleted_at: datetime | None = None  # the deletion timestamp; None unless the pod is being deleted
    # why its containers cannot start, e.g. ``ImagePullBackOff``, or why the kubelet rejected the pod, e.g.
    # ``OutOfpods``, with the kubelet's message; empty if unknown
    blocked: str = ""
    ended: str = ""  # why a container exited with a non-zero code, with the kubelet's message; empty if none did
    blocked_on_artifact: bool = False  # whether the image that cannot be pulled is the artifact's
    role: PodRole = PodRole.AGENT

    @property
    def over(self) -> bool:
        """Whether the pod has reached a terminal phase."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def cannot_pull(self) -> bool:
        """Whether it is blocked because an image cannot be had."""
        return _PULLS.fullmatch(self.blocked.partition(":")[0]) is not None

    def after(self, before: "AgentPodView | None") -> "AgentPodView":
        """Return this view with the cause that the kubelet named before, if it only backs off now."""
        if before is None or before.uid != self.uid or not before.cannot_pull:
            return self
        return replace(self, blocked=before.blocked) if _BACKS_OFF.fullmatch(self.blocked) else self


def view_agent_pod(body: Json, main_containers: Mapping[PodRole, str], artifact_container: str) -> AgentPodView:
    """Return the view of an agent pod or of an artifact's.

    Args:
        body: The pod as the API serves it.
        main_containers: By role, the name of the container that is not an init container.
        artifact_container: Name of the init container that copies the artifact.
    """
    metadata, status = body["metadata"], body.get("status", {})
    labels = metadata.get("labels") or {}
    role = PodRole.ARTIFACT if labels.get(COMPONENT_LABEL) == PodRole.ARTIFACT.value else PodRole.AGENT
    deleted = metadata.get("deletionTimestamp")
    rejected = [(_why(status), "")] if status.get("phase") == "Failed" and status.get("reason") else []
    blocked = rejected or [
        (_why(waiting), c["name"])
        for c in container_statuses(status)
        if (waiting := (c.get("state") or {}).get("waiting")) and str(waiting.get("reason", "")) not in _STARTS
    ]
    terminated = [ended for c in container_statuses(status) if (ended := (c.get("state") or {}).get("terminated"))]
    acting = [c for c in status.get("containerStatuses") or () if c["name"] == main_containers[role]]
    return AgentPodView(
        name=metadata["name"],
        uid=metadata["uid"],
        node=NodeName(body.get("spec", {}).get("nodeName", "")),
        run_id=labels.get(RUN_LABEL, ""),
        role=role,
        phase=status.get("phase", ""),
        deleting=deleted is not None,
        started=any(c.get("containerID") or "waiting" not in (c.get("state") or {"waiting": {}}) for c in acting)
        or (role is PodRole.ARTIFACT and _has_copied(status, artifact_container)),
        created_at=from_json(datetime, metadata["creationTimestamp"], "metadata.creationTimestamp"),
        running_since=next(filter(None, map(_running_since, acting)), None),
        deleted_at=known_time(deleted),
        blocked=blocked[0][0] if blocked else "",
        ended=next((_last_words(state) for state in terminated if state.get("exitCode")), ""),
        blocked_on_artifact=any(name == artifact_container for _, name in blocked),
    )


def _has_copied(status: Json, artifact_container: str) -> bool:
    """Report whether the files are there: a second before a kubelet reports the next container to be running."""
    copying = [c for c in status.get("initContainerStatuses") or () if c["name"] == artifact_container]
    return any(((c.get("state") or {}).get("terminated") or {}).get("exitCode") == 0 for c in copying)


def _running_since(container: Json) -> datetime | None:
    return known_time(((container.get("state") or {}).get("running") or {}).get("startedAt"))


def _why(state: Json) -> str:
    """Return the kubelet's reason and message from a pod status or a container state."""
    words = shorten(one_line(str(state.get("message") or "")), KUBELET_WORDS)
    return f"{state.get('reason', '')}: {words}".strip(": ")


def _last_words(state: Json) -> str:
    """Return why a container has ended: of a log, the last line."""
    said = lines(trimmed(str(state.get("message") or "")))
    generic = said and state.get("reason") == "Error"
    return _why({"reason": "" if generic else state.get("reason", ""), "message": said[-1] if said else ""})


VARIABLE = "NODEUPGRADE_FAILPOINTS"
"""The environment variable without which there are none. The operator passes its own on to its agents."""


AGENT_LABELS = {"app.kubernetes.io/name": "nodeupgrade-agent", "app.kubernetes.io/part-of": "nodeupgrade"}
"""Labels of both pods; COMPONENT_LABEL distinguishes them."""
