"""What has to be known of an agent's pod: whether it acts, and why it cannot."""

from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.pods import container_statuses

KUBELET_WORDS = 256
"""Characters of a kubelet's explanation that are passed on."""

RUN_LABEL = "nodeupgrade.dev/run"
"""On an agent pod: the run it serves."""


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


def view_agent_pod(body: Json, agent_container: str, artifact_container: str) -> AgentPodView:
    """Read an agent pod, given the names of the container that acts and of the one that brings the artifact."""
    metadata, status = body["metadata"], body.get("status", {})
    deleted = metadata.get("deletionTimestamp")
    rejected = [(_why(status), "")] if status.get("phase") == "Failed" and status.get("reason") else []
    blocked = rejected or [
        (_why(waiting), c["name"])
        for c in container_statuses(status)
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


def _why(told: Json) -> str:
    """Give the kubelet's reason and its words for it."""
    words = " ".join(str(told.get("message") or "").split())[:KUBELET_WORDS]
    return f"{told.get('reason', '')}: {words}".strip(": ")


def _terminated(status: Json) -> list[Json]:
    return [ended for c in container_statuses(status) if (ended := (c.get("state") or {}).get("terminated"))]


def _is_blocking(reason: str) -> bool:
    """Whether a waiting reason of the kubelet's speaks of more than ordinary start-up."""
    return reason not in {"", "PodInitializing", "ContainerCreating"}
