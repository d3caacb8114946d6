"""What the programs on the host run from: the bundle of this version, and those of others, on one node."""

from pathlib import PurePosixPath
from typing import Protocol


class Bundles(Protocol):
    """The bundles that are kept on one node."""

    def stage(self) -> PurePosixPath:
        """Bring this version's bundle onto the node, whole and for good; return where the node has it.

        Repeating it is harmless, and puts right what was damaged.

        Raises:
            StepFailed: it cannot be brought.
        """
        ...

    def retire(self) -> None:
        """Remove the bundles of other versions, when no executor can be running from one.

        Raises:
            StepFailed: it is not known which is this version's.
        """
        ...

    def remove(self) -> None:
        """Remove them all, likewise."""
        ...
