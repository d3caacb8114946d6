"""Fetches new kubelet binaries to a path that this process can write to."""

from pathlib import PurePath, PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import Digest


class CopyError(Exception):
    """A file cannot be copied; the message says why."""


class Artifacts(Protocol):
    """Downloads and copies programs. A target appears whole or not at all.

    Paths are as this process sees them, unless stated otherwise.
    """

    def download(self, url: str, target: PurePath, expected: Digest) -> None:
        """Download ``url`` and verify its SHA-256. A target that already matches is left alone.

        Raises:
            Refused: DIGEST_MISMATCH if the content differs; ARTIFACT_UNAVAILABLE if it cannot be downloaded.
            OSError: the target cannot be written.
        """
        ...

    def copy(self, source: PurePath, target: PurePath) -> None:
        """Copy a program durably.

        Raises:
            CopyError: the source is missing or not a regular file, or the target cannot be written.
        """
        ...

    def copy_from_node(self, source: PurePosixPath, target: PurePath) -> None:
        """Copy a program by its path on the node. Symbolic links are resolved within the node's root.

        Raises:
            CopyError: as for `copy`.
            OSError: the links cannot be resolved.
        """
        ...
