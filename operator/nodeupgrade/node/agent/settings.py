"""Settings of the agent pod, read from its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.approved_settings import approval
from nodeupgrade.api.task.spec import TaskArtifact, TaskSpec
from nodeupgrade.api.values import NodeName, PodUid, RunId
from nodeupgrade.bundle import DEFAULT_LOCATION
from nodeupgrade.cluster.agent_pods import BORROWED, CONTENT, FROM_OBJECTS, file_from_object
from nodeupgrade.errors import Refused
from nodeupgrade.sources.allowlist import Allowed, forbidden_source, read_allowed
from nodeupgrade.sources.download_addresses import AddressPolicy
from nodeupgrade.text import parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The agent's node, task and run, and the paths in its pod."""

    node: NodeName
    task: str
    run_id: RunId
    namespace: str  # of the agent's pod, which is the operator's
    host: Path = Path("/host")  # mount point of the node's root directory
    bundle: Path = Path(DEFAULT_LOCATION)  # the bundle in the agent's image
    copied: Path = Path(BORROWED)  # where the agent keeps a kubelet that it only examines, in its own pod
    # directory with one directory for each file of ``spec.files`` from a ConfigMap or Secret
    files: Path = Path(FROM_OBJECTS)
    # ``api.task.approval`` of the task for which the operator created this agent; None to trust the task
    approved: str | None = None
    allowed: Allowed | None = None  # what the operator's configuration allows; None to trust the task
    artifact_pod: PodUid | None = None  # the pod that extracts files from the artifact's image
    from_image: PurePosixPath | None = None  # the directory of the node with these files, once it is known
    api_servers: tuple[str, ...] = ()  # addresses of the API server, as far as the environment has them
    reach: AddressPolicy = field(default_factory=AddressPolicy)  # what a kubelet may be downloaded from

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "AgentSettings":
        """Read NODE_NAME, RUN_ID, POD_NAMESPACE, APPROVED, ALLOWED, ARTIFACT_POD, and TASK_NAME, by default the node's.

        Raises:
            KeyError: NODE_NAME, RUN_ID, POD_NAMESPACE, APPROVED or ALLOWED is missing.
        """
        return cls(
            node=NodeName(environment["NODE_NAME"]),
            task=environment.get("TASK_NAME", environment["NODE_NAME"]),
            run_id=RunId(environment["RUN_ID"]),
            namespace=environment["POD_NAMESPACE"],
            approved=environment["APPROVED"],
            allowed=read_allowed(parse_json(environment["ALLOWED"])),
            artifact_pod=PodUid(environment["ARTIFACT_POD"]) if environment.get("ARTIFACT_POD") else None,
            api_servers=tuple(filter(None, (environment.get("KUBERNETES_SERVICE_HOST"),))),
        )

    def require_approved(self, spec: TaskSpec) -> None:
        """Require that the task is still the one for which the operator created this agent.

        Raises:
            Refused: it was changed since.
        """
        if self.approved not in {None, approval(spec)}:
            raise Refused(Reason.NOT_ALLOWED, "the NodeUpgradeTask was changed after the operator created its agent")

    def require_allowed(self, artifact: TaskArtifact) -> None:
        """Require that a kubelet may come from its resolved source.

        Raises:
            Refused: the operator's configuration does not allow it.
        """
        if self.allowed is not None and (problem := forbidden_source(artifact, self.allowed)) is not None:
            raise Refused(Reason.NOT_ALLOWED, f"the operator's configuration does not allow {problem}")

    def extracted(self, name: str) -> PurePosixPath:
        """Return the path on the node of a file that was extracted from the artifact's image.

        Raises:
            Refused: this agent was created without it.
        """
        if self.from_image is None:
            raise Refused(Reason.ARTIFACT_UNAVAILABLE, "nothing was extracted from the artifact's image for this agent")
        return self.from_image / name

    def file(self, index: int) -> Path:
        """Return the path of the content of a file of ``spec.files`` from a ConfigMap or Secret, by its place there."""
        return self.files / PurePosixPath(file_from_object(index)).relative_to(FROM_OBJECTS) / CONTENT

    def in_pod(self, path: Path) -> PurePosixPath:
        """Return a path of the agent's file system as the node sees it, while this process lives.

        The file need not be on a file system that is mounted on the node.
        """
        return PurePosixPath(f"/proc/{os.getpid()}/root") / path.relative_to("/")

    def on_host(self, path: PurePosixPath) -> Path:
        """Return a path of the node as the agent sees it."""
        return self.host / path.relative_to("/")
