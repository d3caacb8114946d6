"""Implements Artifacts for a node whose root directory is mounted in this process's file system."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.artifacts.download import download
from nodeupgrade.node.host.files.opening import CopyError, copy_regular, open_regular, real_path
from nodeupgrade.sources.download_addresses import AddressPolicy


@dataclass(frozen=True, slots=True)
class NodeArtifacts:
    """Implements Artifacts."""

    root: Path  # mount point of the node's root directory

    def download(self, url: str, target: PurePath, expected: Digest, reach: AddressPolicy) -> None:
        download(url, Path(target), expected, reach)

    def real(self, source: PurePosixPath) -> PurePosixPath:
        try:
            return real_path(self.root, source)
        except OSError as error:
            raise CopyError(f"cannot follow {source}: {error.strerror or error}") from error

    def copy(self, source: PurePosixPath, target: PurePath) -> Digest:
        return copy_regular(self.root, source, Path(target))

    def read(self, source: PurePosixPath, limit: int) -> bytes:
        with self._reading(source) as file, os.fdopen(file, "rb", closefd=False) as reader:
            return reader.read(limit)

    @contextmanager
    def _reading(self, source: PurePosixPath) -> Iterator[int]:
        try:
            with open_regular(self.root, source) as file:
                yield file
        except OSError as error:
            raise CopyError(f"cannot read {source}: {error.strerror or error}") from error
