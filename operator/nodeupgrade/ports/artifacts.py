"""Where new kubelets come from, and how they reach a place that this process writes to."""

from pathlib import PurePath, PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import Digest


class CopyError(Exception):
    """The file cannot be copied; the message says why."""


class Artifacts(Protocol):
    """Brings programs. A target appears whole or not at all; a path is as this process sees it, unless said."""

    def download(self, url: str, target: PurePath, expected: Digest) -> None:
        """Fetch ``url``, trusted only by its SHA-256. A target that is right already is left alone.

        Raises:
            Refused: with DIGEST_MISMATCH when the content is another; with ARTIFACT_UNAVAILABLE when it cannot be had.
            OSError: the target cannot be written.
        """
        ...

    def copy(self, source: PurePath, target: PurePath) -> None:
        """Copy a program, durably.

        Raises:
            CopyError: the source is absent or no regular file, or the target cannot be written.
        """
        ...

    def copy_from_node(self, source: PurePosixPath, target: PurePath) -> None:
        """Copy a program of the node, named as the node names it; links lead nowhere but within the node's root.

        Raises:
            CopyError: as for `copy`.
            OSError: the links lead nowhere.
        """
        ...
