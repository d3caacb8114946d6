"""The directories that programs make when they start, or else exit, where others may write."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.kubelet.layout import above_logs
from nodeupgrade.node.host.files.files import Files, FilesView, Misplaced


def misplaced_at(files: FilesView, directories: Iterable[PurePosixPath]) -> Iterator[Misplaced]:
    """Yield what is in the place of such directories, or on the way there.

    Also links: whoever makes one decides where it leads later.
    """
    for path in directories:
        if (found := files.misplaced(path, above_logs(path), directory=True)) is not None:
            yield found


def make_way(files: Files, directory: PurePosixPath) -> PurePosixPath | None:
    """Move aside what is in the place of such a directory; return where it is, ``None`` if nothing was."""
    return files.clear_way(directory, above_logs(directory), directory=True)
