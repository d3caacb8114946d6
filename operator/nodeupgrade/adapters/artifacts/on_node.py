"""The Artifacts port for a node whose root directory is mounted in this process's file system."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePath, PurePosixPath

from nodeupgrade.adapters.artifacts.download import download
from nodeupgrade.adapters.files.copying import copy
from nodeupgrade.adapters.files.opening import opened, real
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.rollout.reach import Reach
from nodeupgrade.ports.artifacts import CopyError


@dataclass(frozen=True, slots=True)
class NodeArtifacts:
    """Implements ports.artifacts.Artifacts.

    Attributes:
        root: mount point of the node's root directory.
    """

    root: Path

    def download(self, url: str, target: PurePath, expected: Digest, reach: Reach) -> None:
        """Download a program."""
        download(url, Path(target), expected, reach)

    def real(self, source: PurePosixPath) -> PurePosixPath:
        """Follow the links on the way to a file of the node."""
        try:
            return real(self.root, source)
        except OSError as error:
            raise CopyError(f"cannot follow {source}: {error.strerror or error}") from error

    def copy(self, source: PurePosixPath, target: PurePath) -> Digest:
        """Copy a program from the node's file system."""
        return Digest(copy(self.root, source, Path(target)))

    def digest(self, source: PurePosixPath) -> Digest:
        """Read a program of the node."""
        with self._reading(source) as reader:
            return Digest(hashlib.file_digest(reader, "sha256").hexdigest())

    def read(self, source: PurePosixPath, limit: int) -> bytes:
        """Read a small file of the node."""
        with self._reading(source) as reader:
            return reader.read(limit)

    @contextmanager
    def _reading(self, source: PurePosixPath) -> Iterator[BufferedReader]:
        try:
            with opened(self.root, source) as file, os.fdopen(file, "rb", closefd=False) as reader:
                yield reader
        except OSError as error:
            raise CopyError(f"cannot read {source}: {error.strerror or error}") from error
