"""Settings of the agent pod, read from its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.approval import approval
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.domain.agent_pods import CONTENT, FROM_IMAGE, FROM_OBJECTS, file_from_image, file_from_object
from nodeupgrade.domain.bundle import DEFAULT_LOCATION
from nodeupgrade.domain.errors import Refused
from nodeupgrade.engine.node.facts.gather import STATE_DIRECTORY

STATE = STATE_DIRECTORY
"""Directory of bundles and runs on the node."""

BUNDLES, RUNS = STATE / "bundles", STATE / "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The agent's node, task and run, and the paths in its pod.

    Attributes:
        host: mount point of the node's root directory.
        bundle: the bundle in the agent's image.
        copied: the kubelet that an init container copied from the artifact's image.
        files: directory with one directory for each file of ``spec.files`` from a ConfigMap or Secret.
        approved: ``api.task.approval`` of the task for which the operator created this agent; None to trust the task.
    """

    node: NodeName
    task: str
    run_id: RunId
    host: Path = Path("/host")
    bundle: Path = Path(DEFAULT_LOCATION)
    copied: Path = Path(FROM_IMAGE)
    files: Path = Path(FROM_OBJECTS)
    approved: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "AgentSettings":
        """Read NODE_NAME, RUN_ID, APPROVED, and TASK_NAME, which defaults to the node's name.

        Raises:
            KeyError: NODE_NAME, RUN_ID or APPROVED is missing.
        """
        return cls(
            node=NodeName(environment["NODE_NAME"]),
            task=environment.get("TASK_NAME", environment["NODE_NAME"]),
            run_id=RunId(environment["RUN_ID"]),
            approved=environment["APPROVED"],
        )

    def require_approved(self, spec: TaskSpec) -> None:
        """Require that the task is still the one for which the operator created this agent.

        Raises:
            Refused: Somebody has changed it since.
        """
        if self.approved not in {None, approval(spec)}:
            raise Refused(Reason.NOT_ALLOWED, "the NodeUpgradeTask was changed after the operator created its agent")

    def file(self, index: int, *, from_image: bool) -> Path:
        """Return the path of the content of a file of ``spec.files``, by its place there."""
        if from_image:
            return self.copied.parent / PurePosixPath(file_from_image(index)).name
        return self.files / PurePosixPath(file_from_object(index)).relative_to(FROM_OBJECTS) / CONTENT

    def in_pod(self, path: Path) -> PurePosixPath:
        """Return a path of the agent's file system as the node sees it, while this process lives.

        The file need not be on a file system that is mounted on the node.
        """
        return PurePosixPath(f"/proc/{os.getpid()}/root") / path.relative_to("/")

    def on_host(self, path: PurePosixPath) -> Path:
        """Return a path of the node as the agent sees it."""
        return self.host / path.relative_to("/")
