"""Fetches new kubelet binaries to a path that this process can write to."""

from pathlib import PurePath, PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import Digest
from nodeupgrade.sources.download_addresses import AddressPolicy


class Artifacts(Protocol):
    """Downloads and copies programs. A target appears whole or not at all.

    Targets are paths as this process sees them, sources paths on the node.
    """

    def download(self, url: str, target: PurePath, expected: Digest, reach: AddressPolicy) -> None:
        """Download ``url`` and verify its SHA-256. A target that already matches is left alone.

        Raises:
            Refused: DIGEST_MISMATCH if the content differs; ARTIFACT_UNAVAILABLE if it cannot be downloaded, also
                because ``reach`` forbids the address.
            OSError: the target cannot be written.
        """

    def real(self, source: PurePosixPath) -> PurePosixPath:
        """Return where a path on the node leads, with links followed within the node's root.

        Raises:
            CopyError: a link cannot be followed.
        """

    def copy(self, source: PurePosixPath, target: PurePath) -> Digest:
        """Copy a regular file of the node durably, and return the SHA-256 of what was copied.

        Raises:
            CopyError: the source is missing, not a regular file, behind a link or larger than any program, or the
                target cannot be written.
        """

    def read(self, source: PurePosixPath, limit: int) -> bytes:
        """Return the content of a regular file of the node, or its first ``limit`` bytes.

        Raises:
            CopyError: as for `copy`.
        """
