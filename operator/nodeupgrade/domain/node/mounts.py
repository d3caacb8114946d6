"""Look up mounts and their options in a node's mount table."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")
_FIELDS = 6
"""Fields of every line before the optional ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount."""

    number: str  # by which other mounts name it
    parent: str  # number of the mount on which it is mounted
    point: PurePosixPath
    options: frozenset[str]  # those of the mount and of its filesystem
    kind: str  # type of the filesystem, for example ``ext4``
    source: tuple[str, PurePosixPath]  # device of the filesystem, and what of it is mounted: ``("0:24", "/lib")``

    @property
    def upper(self) -> PurePosixPath | None:
        """Return the directory that an overlay writes to; ``None`` if it is no overlay, or cannot be written to."""
        named = (option.removeprefix("upperdir=") for option in self.options if option.startswith("upperdir="))
        return next(map(_unescaped, named), None)


def is_read_only(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted read-only. See has_option for the arguments."""
    return has_option("ro", mountinfo, path)


def has_option(option: str, mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted with an option such as ``noexec``.

    Args:
        mountinfo: content of ``/proc/PID/mountinfo`` of a process in the host's mount namespace.
        path: absolute, without symbolic links.
    """
    mount = holder(mountinfo, path)
    return mount is not None and option in mount.options


def holder(mountinfo: str, path: PurePosixPath) -> Mount | None:
    """Return the mount that holds a path; ``None`` if there is none. See has_option for the arguments.

    It is found as the kernel finds it, from the root on: a mount whose mount point is hidden by another one does not
    count, whatever its place in the table. Mounts that were propagated to both are such.
    """
    left = [mount for mount in mounts(mountinfo) if path.is_relative_to(mount.point)]
    numbers = {mount.number for mount in left}
    reached = [mount for mount in left if mount.parent not in numbers - {mount.number}]
    found: Mount | None = None
    while reached:
        # Of several on one mount point the last one counts.
        found = min(reversed(reached), key=lambda mount: len(mount.point.parts))
        left.remove(found)
        reached = [mount for mount in left if mount.parent == found.number]
    return found


def is_mount_point(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether something is mounted at exactly this path. See has_option for the arguments."""
    mount = holder(mountinfo, path)
    return mount is not None and mount.point == path


def mounts(mountinfo: str) -> Iterator[Mount]:
    """Yield all mounts that can be parsed. See has_option for the argument."""
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        fields, of_filesystem = mount.split(" "), filesystem.split(" ")
        if len(fields) >= _FIELDS:
            yield Mount(
                number=fields[0],
                parent=fields[1],
                point=_unescaped(fields[4]),
                options=frozenset({*fields[5].split(","), *of_filesystem[-1].split(",")}),
                kind=of_filesystem[0],
                source=(fields[2], _unescaped(fields[3])),
            )


def place_of(mountinfo: str, path: PurePosixPath) -> tuple[str, PurePosixPath] | None:
    """Return the filesystem that holds a path, and the path in it: the same in every mount namespace.

    ``None`` if no mount holds it. See has_option for the arguments.
    """
    mount = holder(mountinfo, path)
    if mount is None:
        return None
    device, root = mount.source
    return device, root / path.relative_to(mount.point)


def _unescaped(path: str) -> PurePosixPath:
    return PurePosixPath(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), path))


# The volumes that are mounted on a node, as its mount table shows them below the kubelet's directory.
#
# The kubelet's directory may be reached through symbolic links, so only the end of a path counts.

_OF_A_POD = re.compile(r".*/pods/([0-9a-f-]+)/volumes/([^/]+~[^/]+)/([^/]+)(?:/mount)?")
_STAGED_BY_NAME = re.compile(r".*/plugins/kubernetes\.io/csi/pv/([^/]+)/globalmount")
_STAGED_BY_DIGEST = re.compile(r".*/plugins/kubernetes\.io/csi/([^/]+)/[0-9a-f]{64}/globalmount")
_PUBLISHED = re.compile(r".*/plugins/kubernetes\.io/csi/volumeDevices/publish/([^/]+)(/[^/]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolume:
    """A volume that is mounted for one pod."""

    pod: str  # UID of the pod
    plugin: str  # for example ``kubernetes.io/csi``
    name: str  # of the volume in the pod, or of the PersistentVolume


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedVolumes:
    """The volumes that are mounted on a node."""

    of_pods: tuple[PodVolume, ...] = ()
    staged_by_name: tuple[str, ...] = ()  # PersistentVolumes that a CSI driver has staged in a directory of their name
    staged_by_digest: tuple[str, ...] = ()  # CSI drivers that have staged a volume in a directory named after a digest
    published: tuple[str, ...] = ()  # PersistentVolumes that are published as block devices, in one place for all pods
    published_for_pods: tuple[str, ...] = ()  # those that are published in a place for each pod


def mounted_volumes(mountinfo: str) -> MountedVolumes:
    """Find the volumes in the content of ``/proc/PID/mountinfo`` of a process in the host's mount namespace."""
    points = [str(mount.point) for mount in mounts(mountinfo)]
    published = list(_found(_PUBLISHED, points))
    return MountedVolumes(
        of_pods=tuple(
            dict.fromkeys(
                PodVolume(pod=found[1], plugin=found[2].replace("~", "/", 1), name=found[3])
                for found in _found(_OF_A_POD, points)
            )
        ),
        staged_by_name=_names(_found(_STAGED_BY_NAME, points)),
        staged_by_digest=_names(_found(_STAGED_BY_DIGEST, points)),
        published=_names(found for found in published if not found[2]),
        published_for_pods=_names(found for found in published if found[2]),
    )


def _found(pattern: re.Pattern[str], points: list[str]) -> Iterator[re.Match[str]]:
    return (found for point in points if (found := pattern.fullmatch(point)) is not None)


def _names(found: Iterator[re.Match[str]]) -> tuple[str, ...]:
    return tuple(sorted({each[1] for each in found}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """How full a filesystem is."""

    size: int
    free: int  # bytes that an unprivileged user can still write
    inodes: int  # 0 if the filesystem makes them as needed
    free_inodes: int
