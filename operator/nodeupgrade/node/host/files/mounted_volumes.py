"""The volumes in a node's mount table, below the kubelet's directory.

That directory may be reached through symbolic links, so only the end of a path counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.node.host.files.mounts import mounts

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
