"""What the agent pod is told by its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.domain.bundle import DEFAULT_LOCATION
from nodeupgrade.engine.node.facts.gather import STATE_DIRECTORY

STATE = STATE_DIRECTORY
"""Where bundles and runs are kept on the node."""

BUNDLES, RUNS = STATE / "bundles", STATE / "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Who the agent works for, and where it sees what.

    Attributes:
        host: where the node's root directory is mounted.
        bundle: the bundle in the agent's image.
        copied: the kubelet that an init container copied out of the artifact's image.
    """

    node: NodeName
    task: str
    run_id: RunId
    host: Path = Path("/host")
    bundle: Path = Path(DEFAULT_LOCATION)
    copied: Path = Path("/staging/kubelet")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "AgentSettings":
        """Read NODE_NAME, TASK_NAME and RUN_ID.

        Raises:
            KeyError: one of them is missing.
        """
        return cls(
            node=NodeName(environment["NODE_NAME"]),
            task=environment.get("TASK_NAME", environment["NODE_NAME"]),
            run_id=RunId(environment["RUN_ID"]),
        )

    def in_pod(self, path: Path) -> PurePosixPath:
        """A path of the agent's own file system as the node sees it, for as long as this process lives.

        It needs no place on the node's disks that the node could see otherwise.
        """
        return PurePosixPath(f"/proc/{os.getpid()}/root") / path.relative_to("/")

    def on_host(self, path: PurePosixPath) -> Path:
        """A path of the node as the agent sees it."""
        return self.host / path.relative_to("/")
