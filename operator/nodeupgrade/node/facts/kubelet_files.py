"""Gather the kubelet's own files: program, state, credentials, manifests of static pods. Changes nothing."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.kubelet.layout import READ_AT_START, SOCKETS, KubeletLayout, log_directories, path_of
from nodeupgrade.node.checks.state_files import state_files_are_readable
from nodeupgrade.node.facts.static_pod_manifests import manifest_paths
from nodeupgrade.node.host.files.files import MOST_ENTRIES, EntryKind, FilesView
from nodeupgrade.node.host.files.made_directories import misplaced_at
from nodeupgrade.node.host.files.mounts import is_mount_point, is_read_only, mount_table


def unchangeable(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the immutable paths among those a run changes: the program, its directory, and static pod manifests."""
    changed = [] if program is None else [program, program.parent]
    if layout.manifests is not None:
        changed += [PurePosixPath(layout.manifests), *manifest_paths(files, layout)]
    return tuple(str(path) for path in changed if files.immutable(path))


def mounted(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the mount points among the files that a run replaces: the program, and static pod manifests."""
    table, replaced = mount_table(files), [*([] if program is None else [program]), *manifest_paths(files, layout)]
    return tuple(str(path) for path in replaced if is_mount_point(table, path))


def read_only(files: FilesView, *directories: PurePosixPath) -> tuple[str, ...]:
    """Return the directories that are mounted read-only on the host."""
    table = mount_table(files)
    return tuple(str(directory) for directory in directories if is_read_only(table, directory))


def irreplaceable(files: FilesView, sockets: Iterable[PurePosixPath]) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield what some starting kubelet does not replace by its socket, and why: whatever is none itself.

    A link is not followed: it may lead to a file server that does not answer.
    """
    for path in sockets:
        entry = files.entry(path)
        if entry is not None and entry.kind is not EntryKind.SOCKET:
            yield path, f"is {entry.kind}, where a starting kubelet makes a socket, without which it exits"


def misplaced_logs(files: FilesView, logs: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield what keeps a starting kubelet from making its directories for logs, ``logs`` among them, and why."""
    for found in misplaced_at(files, log_directories(logs)):
        yield found.path, f"{found.what}, where a starting kubelet makes a directory, without which it exits"


def crowded(files: FilesView, sockets: Iterable[PurePosixPath]) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the directories of a kubelet's sockets of which a kubelet would look at too many entries, and why."""
    for directory in sorted({path.parent for path in sockets}):
        if files.is_crowded(directory):
            yield directory, f"has more than {MOST_ENTRIES} entries, of which a starting kubelet looks at every one"


def state(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the content of the kubelet's state files, by their path below its root directory.

    Raises:
        Refused: something else lies in the place of one, of a socket, or of a directory for logs.
    """
    try:
        found = {name: files.read_state(path_of(name, layout.root)) for name in READ_AT_START}
        sockets = tuple(path_of(name, layout.root) for name in SOCKETS)
        logs = misplaced_logs(files, layout.logs)
        problem = next(chain(irreplaceable(files, sockets), logs, crowded(files, sockets)), None)
    except StepFailed as error:
        raise _out_of_place(f"{error}, where kubelets keep a state file") from error
    if problem is not None:
        raise _out_of_place(" ".join(map(str, problem)))
    return {name: data for name, data in found.items() if data is not None}


def _out_of_place(what: str) -> Refused:
    why = f"{what}; find out what has put that there, and remove it, or mount a directory in place of a link"
    return Refused(Reason.KUBELET_WOULD_NOT_START, why, check=state_files_are_readable.name)
