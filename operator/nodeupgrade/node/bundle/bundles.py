"""The bundles on one node: the self-contained Python that programs on the host run from, one per version."""

from pathlib import PurePosixPath
from typing import Protocol


class Bundles(Protocol):
    """Manages the bundles on one node."""

    def stage(self) -> PurePosixPath:
        """Copy this version's bundle to the node, durably and as a whole; return its path on the node.

        Idempotent; repairs a damaged bundle.

        Raises:
            StepFailed: it cannot be copied.
        """

    def retire(self) -> None:
        """Remove the bundles of other versions. Call only when no executor can be running from one.

        Raises:
            StepFailed: this version's bundle cannot be identified.
        """

    def remove(self) -> None:
        """Remove all bundles, under the same condition."""
