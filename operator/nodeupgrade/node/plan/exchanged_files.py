"""Files that are exchanged together with the kubelet: as found on the node, and as wanted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Self

from nodeupgrade.api.values import Digest
from nodeupgrade.kubelet.layout import DEFAULT_CERTIFICATES, KubeletLayout
from nodeupgrade.node.host.files.files import EntryKind, FileEntry
from nodeupgrade.node.host.systemd.drop_ins import is_own_drop_in
from nodeupgrade.node.plan.plan import RunPlan

UNIT_DIRECTORY = "/etc/systemd/system"
LINKED = "there is a symbolic link in its path; name the file that it leads to"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that is to be on the node together with the new kubelet."""

    path: str
    mode: int  # its permissions
    digest: Digest
    source: str  # where the content comes from, for messages
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """A path that a new file is for, as it is found."""

    new: NewFile
    real: PurePosixPath  # the path without symbolic links in its directories
    entry: FileEntry | None  # None if there is nothing
    before: Digest | None  # digest of the present content; None if there is none to be read
    directory: bool  # whether its directory exists
    mounted: bool  # whether something is mounted at the path, or its filesystem is read-only
    immutable: bool  # whether it or its directory has the attribute immutable or append-only
    content: bytes | None = field(default=None, repr=False)  # the present content, if it is a drop-in of a unit

    @property
    def changes(self) -> bool:
        """Whether the content would change; a file that is already right is not touched, nor are its permissions."""
        return self.before != self.new.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlaces:
    """Where there are files of the kubelet, and of systemd, that no run may exchange; without symbolic links."""

    manifests: PurePosixPath | None  # directory of static pods
    kubeconfigs: frozenset[PurePosixPath]
    certificates: PurePosixPath  # the directory that the kubelet itself writes to
    unit_files: frozenset[PurePosixPath]  # files that define the kubelet's or the runtime's unit

    @classmethod
    def of(
        cls, layout: KubeletLayout, follow: Callable[[PurePosixPath], PurePosixPath], unit_files: Iterable[str] = ()
    ) -> Self:
        """Return those of a kubelet; ``follow`` returns where a path leads."""
        settings, manifests = layout.settings, layout.manifests
        kubeconfigs = filter(None, (layout.kubeconfig, settings.flag("bootstrap-kubeconfig")))
        return cls(
            manifests=None if manifests is None else follow(PurePosixPath(manifests)),
            kubeconfigs=frozenset(follow(PurePosixPath(path)) for path in kubeconfigs),
            certificates=follow(PurePosixPath(settings.flag("cert-dir") or DEFAULT_CERTIFICATES)),
            unit_files=frozenset(follow(PurePosixPath(path)) for path in unit_files),
        )


def is_drop_in(path: str) -> bool:
    """Report whether a path is that of a drop-in of a unit."""
    return PurePosixPath(path).parent.parent == PurePosixPath(UNIT_DIRECTORY)


def exchanges_drop_in(plan: RunPlan) -> bool:
    """Report whether systemd reads a file that is exchanged."""
    return any(is_drop_in(file.path) for file in plan.exchanged)


def reloads_without_kubelet(plan: RunPlan) -> bool:
    """Report whether systemd has to read files that are exchanged once the kubelet is stopped."""
    return plan.swap.arguments is not None or exchanges_drop_in(plan)


def obstacle(found: FileFound) -> str | None:
    """Return why the file at a path cannot be exchanged by a rename and put back exactly, and what to do about it."""
    path, entry = PurePosixPath(found.new.path), found.entry
    if not found.directory:
        return f"there is no directory {path.parent}; create it first"
    if found.real != path:
        return LINKED
    if found.mounted:
        return "something is mounted there, or its filesystem is mounted read-only; unmount it"
    if found.immutable:
        return f"it or its directory has the attribute immutable or append-only; remove it: chattr -ia {path}"
    if entry is None:
        return None
    return entry_obstacle(path, entry)


def entry_obstacle(path: PurePosixPath, entry: FileEntry) -> str | None:
    """Return why what is at a path cannot be exchanged, as far as it depends on the path itself."""
    if entry.kind is EntryKind.LINK or entry.real != path:
        return LINKED
    if entry.kind is not EntryKind.FILE:
        return f"it is {entry.kind}"
    if entry.links > 1:
        return f"it has {entry.links} names (hard links), and only one of them would be replaced; remove the others"
    return None


def reserved(path: str, unit: str, own: OwnPlaces) -> str | None:
    """Return why no run may exchange the file at a path, and what to do about it."""
    at = PurePosixPath(path)
    if is_drop_in(path):
        if at.parent.name != f"{unit}.d":
            return f"it is not a drop-in of {unit}, which spec.kubelet.unit names"
        if is_own_drop_in(path):
            return "drop-ins of this name are nodeupgrade's own; choose another name"
    elif at in own.unit_files:
        return "a unit of systemd is defined by it, through a symbolic link; put the file in place of the link"
    if own.manifests is not None and own.manifests in at.parents:
        return "it is in the kubelet's directory of static pods; change manifests separately"
    if at in own.kubeconfigs:
        return "it is the kubelet's kubeconfig, by which the API server knows the node; leave it out"
    if own.certificates in at.parents:
        return "the kubelet itself writes to the directory; leave it out"
    return None


def changes_of(found: tuple[FileFound, ...]) -> Iterator[FileFound]:
    """Yield the files whose content would change."""
    return (each for each in found if each.changes)
