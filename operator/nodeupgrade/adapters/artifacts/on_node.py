"""Programs for one node, whose root directory is mounted somewhere."""

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
        root: the node's root directory.
    """

    root: Path

    def download(self, url: str, target: PurePath, expected: Digest) -> None:
        """Fetch a program."""
        download(url, Path(target), expected)

    def copy(self, source: PurePath, target: PurePath) -> None:
        """Copy a program."""
        copy(Path(source), Path(target))

    def copy_from_node(self, source: PurePosixPath, target: PurePath) -> None:
        """Copy a program of the node."""
        copy(resolve(self.root, source, follow_last=True), Path(target))
