"""The directories that programs make when they start, or else exit, where others may write."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.kubelet.layout import above_logs
from nodeupgrade.node.host.files.files import EntryKind, Files, FilesView, Misplaced
from nodeupgrade.node.host.files.mounts import mount_holding, mount_table

_ROOT = PurePosixPath("/")


def misplaced_at(files: FilesView, directories: Iterable[PurePosixPath]) -> Iterator[Misplaced]:
    """Yield what is in the place of such directories, or on the way there.

    A link is not if it leads to a directory, as where an administrator has moved logs to another disk.
    """
    for path in directories:
        found = files.misplaced(path, above_logs(path), directory=True)
        if found is not None and not (found.path == path and _leads_to_directory(files, path)):
            yield found


def make_way(files: Files, directory: PurePosixPath) -> PurePosixPath | None:
    """Move aside what is in the place of such a directory; return where it is, ``None`` if nothing was."""
    if not any(misplaced_at(files, (directory,))):
        return None
    return files.clear_way(directory, above_logs(directory), directory=True)


def _leads_to_directory(files: FilesView, link: PurePosixPath) -> bool:
    """Report whether a link leads straight to a directory. No other machine is asked, which may not answer."""
    target = PurePosixPath(files.link(link) or "")
    if not target.is_absolute() or ".." in target.parts:
        return False
    mount = mount_holding(mount_table(files), target)
    if mount is None or mount.remote or files.misplaced(target, _ROOT, directory=True) is not None:
        return False
    entry = files.entry(target)
    return entry is not None and entry.kind is EntryKind.DIRECTORY
