"""The facts about the node's volumes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.domain.node.host.mounted_volumes import NOTHING_MOUNTED, MountedVolumes, PodVolume
from nodeupgrade.domain.pods import Pod
from nodeupgrade.kubelet import volume_changes
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim that a pod uses.

    Attributes:
        deleting: whether it is being deleted.
        unread: why it could not be read; empty if it was.
    """

    pod: str
    name: str
    deleting: bool = False
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """The facts that the checks of volumes judge.

    Attributes:
        node: the Node object.
        pods: the node's pods.
        current: the kubelet that a rollback would start; ``None`` if its version is unknown.
        gates: feature gates that are set.
        mounted: what is mounted.
        claims: the claims of the pods, if one of the two kubelets heeds their deletion.
        selinux: whether SELinux is enforcing.
    """

    node: Json = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    current: KubeletVersion | None = None
    target: KubeletVersion | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    mounted: MountedVolumes = NOTHING_MOUNTED
    claims: tuple[VolumeClaim, ...] = ()
    selinux: bool = False

    def of_pods(self) -> Iterator[tuple[Pod, PodVolume]]:
        """Return the mounted volumes of pods that have not ended."""
        pods = {str(pod.ref.uid): pod for pod in self.alive()}
        return ((pods[volume.pod], volume) for volume in self.mounted.of_pods if volume.pod in pods)

    def alive(self) -> Iterator[Pod]:
        """Return the pods that have not ended."""
        return (pod for pod in self.pods if not pod.finished)


NO_VOLUMES = Volumes()


def heeds_deletion(*kubelets: KubeletVersion | None) -> bool:
    """Report whether one of these kubelets unmounts volumes whose claim is being deleted."""
    return any(kubelet is not None and volume_changes.CLAIMS_UNMOUNTED.affects(kubelet) for kubelet in kubelets)


def claims_of(pod: Pod) -> Iterator[str]:
    """Return the names of the claims that a pod uses; those of ephemeral volumes are named after pod and volume."""
    for volume in volumes_of(pod):
        if isinstance(claimed := volume.get("persistentVolumeClaim"), dict):
            yield str(claimed.get("claimName") or "")
        elif volume.get("ephemeral") is not None:
            yield f"{pod.ref.name}-{volume.get('name')}"


def volumes_of(pod: Pod) -> Iterator[Json]:
    """Return the volumes of a pod's spec."""
    listed = (pod.raw.get("spec") or {}).get("volumes") or ()
    return (volume for volume in listed if isinstance(volume, dict))
