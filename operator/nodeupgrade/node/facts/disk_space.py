"""Gather how full the node's filesystems will be once a run has stored what it needs. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self

from nodeupgrade.node.host.files.files import DiskUsage, FilesView
from nodeupgrade.node.own_directories import PROGRAM_BYTES, PROGRAM_FILES, program_place


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The filesystems of a node, less what a run has still to store on them.

    Filesystems of the same size count as one, which finds too little space rather than too much. The number of inodes
    says nothing: XFS changes it with each write once little space is left.
    """

    files: FilesView
    _taken: tuple[tuple[DiskUsage, int, int], ...]  # filesystem, bytes and inodes

    @classmethod
    def once_stored(cls, files: FilesView, more: Mapping[PurePosixPath, int]) -> Self:
        """Return the space that is left by both copies of a run's programs, and so many bytes more by their directory.

        Raises:
            StepFailed: a filesystem cannot be looked at.
        """
        programs = files.usage(program_place(files)), PROGRAM_BYTES, PROGRAM_FILES
        return cls(files, (programs, *((files.usage(place), size, 1) for place, size in more.items())))

    def left(self, path: PurePosixPath) -> DiskUsage:
        """Return how full the filesystem of a path will be.

        Raises:
            StepFailed: it cannot be looked at.
        """
        now = self.files.usage(path)
        here = [(size, inodes) for disk, size, inodes in self._taken if disk.size == now.size]
        return replace(
            now,
            free=max(0, now.free - sum(size for size, _ in here)),
            free_inodes=max(0, now.free_inodes - sum(inodes for _, inodes in here)),
        )
