"""The Artifacts port for a node whose root directory is mounted in this process's file system."""

from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from nodeupgrade.adapters.artifacts.download import download
from nodeupgrade.adapters.files import resolve
from nodeupgrade.adapters.files.copying import copy
from nodeupgrade.api.values import Digest


@dataclass(frozen=True, slots=True)
class NodeArtifacts:
    """Implements ports.artifacts.Artifacts.

    Attributes:
        root: mount point of the node's root directory.
    """

    root: Path

    def download(self, url: str, target: PurePath, expected: Digest) -> None:
        """Download a program."""
        download(url, Path(target), expected)

    def copy(self, source: PurePath, target: PurePath) -> None:
        """Copy a program."""
        copy(Path(source), Path(target))

    def copy_from_node(self, source: PurePosixPath, target: PurePath) -> None:
        """Copy a program from the node's file system."""
        copy(resolve(self.root, source, follow_last=True), Path(target))
