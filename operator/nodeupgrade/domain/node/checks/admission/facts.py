"""The facts that a kubelet's admission of pods depends on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelet.state.devices import DeviceCheckpoint, read_devices
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Properties of the host that admission depends on.

    Attributes:
        apparmor: whether AppArmor is enabled in the kernel.
        profiles: the loaded AppArmor profiles, as far as they can be read.
        numa_nodes: number of NUMA nodes.
        device_plugins: names of the sockets of device plugins.
        seccomp: the seccomp profiles that pods name and the node has.
        namespaces: the kubelet's records of user namespaces, by UID of the pod; pods without a record are missing.
    """

    apparmor: bool = False
    profiles: frozenset[str] = frozenset()
    numa_nodes: int = 1
    device_plugins: frozenset[str] = frozenset()
    seccomp: frozenset[str] = frozenset()
    namespaces: Mapping[str, bytes] = field(default_factory=dict)


NOTHING_SEEN = HostFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The facts that the checks judge.

    Attributes:
        node: the Node object.
        pods: the node's pods, static ones taken from their manifests.
        settings: the configuration that the kubelet will start with.
        gates: feature gates that are set.
        current: the kubelet that a rollback would start; ``None`` if its version is unknown.
        state: content of the kubelet's state files, by their path below its root directory.
        alone: whether only the new kubelet would start with this configuration.
    """

    node: Json
    pods: tuple[Pod, ...]
    settings: Configured
    gates: Mapping[str, bool]
    current: KubeletVersion | None
    target: KubeletVersion
    host: HostFacts = HostFacts()
    state: Mapping[str, bytes] = field(default_factory=dict)
    alone: bool = False

    @property
    def devices(self) -> DeviceCheckpoint | None:
        """Return what the kubelet has noted of devices; ``None`` if it would find nothing that it can read."""
        return read_devices(self.state.get(DEVICE_STATE))

    @property
    def starting(self) -> tuple[KubeletVersion, ...]:
        """Return the kubelets that may be started so: the new one, and by a rollback the old one."""
        return (self.target,) if self.current is None or self.alone else (self.target, self.current)

    def admitted(self) -> Iterator[Pod]:
        """Return the pods that are admitted again: all that have not finished."""
        return (pod for pod in self.pods if not pod.finished)


def all_containers(pod: Pod) -> Iterator[Json]:
    """Return every container of a pod's spec except ephemeral ones."""
    return (container.spec for container in pod.containers if container.role is not Role.EPHEMERAL)


def spec_of(pod: Pod) -> Json:
    """Return a pod's spec."""
    spec: Json = pod.raw.get("spec") or {}
    return spec


def security_contexts(pod: Pod) -> Iterator[Json]:
    """Return the security contexts of a pod and of its containers."""
    for holder in (spec_of(pod), *all_containers(pod)):
        yield holder.get("securityContext") or {}


def rejected(pod: Pod, detail: str) -> Finding:
    """Return a finding: a kubelet that starts would kill this pod."""
    return Finding(reason=Reason.POD_WOULD_NOT_BE_ADMITTED, subject=str(pod.ref), detail=detail)
