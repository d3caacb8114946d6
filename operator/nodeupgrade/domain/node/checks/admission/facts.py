"""What a kubelet's admission of pods depends on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What of the host decides about pods.

    Attributes:
        apparmor: whether the kernel confines programs by AppArmor.
        profiles: profiles that are loaded, as far as can be seen.
        numa_nodes: how many there are.
        devices: the kubelet's checkpoint of devices; ``None`` if there is none.
    """

    apparmor: bool = False
    profiles: frozenset[str] = frozenset()
    numa_nodes: int = 1
    devices: bytes | None = None


NOTHING_SEEN = HostFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the checks look at.

    Attributes:
        node: as the API server shows it.
        pods: those of the node, static ones as their manifests have them.
        settings: what the kubelet that starts will be configured to do.
        gates: feature gates that are set.
        current: the kubelet that would start on the way back; ``None`` if it does not say its version.
    """

    node: Json
    pods: tuple[Pod, ...]
    settings: Configured
    gates: Mapping[str, bool]
    current: KubeletVersion | None
    target: KubeletVersion
    host: HostFacts = HostFacts()

    @property
    def starting(self) -> tuple[KubeletVersion, ...]:
        """The kubelets that may be started: the new one, and on the way back the old one."""
        return (self.target,) if self.current is None else (self.target, self.current)

    def admitted(self) -> Iterator[Pod]:
        """The pods that are admitted anew: all that have not come to their end."""
        return (pod for pod in self.pods if not pod.finished)


def all_containers(pod: Pod) -> Iterator[Json]:
    """Every container of a pod's spec that is there from the beginning."""
    return (container.spec for container in pod.containers if container.role is not Role.EPHEMERAL)


def spec_of(pod: Pod) -> Json:
    """A pod's spec."""
    spec: Json = pod.raw.get("spec") or {}
    return spec


def rejected(pod: Pod, detail: str) -> Finding:
    """A pod that a kubelet which starts would kill."""
    return Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, subject=str(pod.ref), detail=detail)
