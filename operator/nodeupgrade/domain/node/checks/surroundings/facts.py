"""The facts about what surrounds a kubelet on its host."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.shared.run_settings import PackagePolicy
from nodeupgrade.domain.node.host.packages import DPKG, DpkgState, Package
from nodeupgrade.domain.node.host.pod_cgroups import NONE_EXPECTED, ExpectedCgroups
from nodeupgrade.domain.pods import Pod
from nodeupgrade.kubelet.settings import UNCONFIGURED, Configured
from nodeupgrade.kubelethash import KubeletVersion

OLDEST_SYSTEMD = 219
"""Of CentOS 7 and Amazon Linux 2. The fence is an assertion (AssertPathExists), which version 218 brought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A process that lives in the kubelet's cgroup although the process that started it has ended."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCgroups:
    """The cgroups of the running pods.

    Attributes:
        base: cgroup of all pods, as the kubelet's configuration names it.
        exists: whether it is there.
        incomplete: by pod, what its cgroup lacks: controllers, or hierarchies in which it does not exist.
        complete: those that lack nothing.
        limit: memory that all pods together may use now, in bytes; ``None`` if there is no limit or it is unknown.
        used: memory that they use and that cannot be reclaimed, in bytes; ``None`` if unknown.
    """

    base: str
    exists: bool
    incomplete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    complete: ExpectedCgroups = NONE_EXPECTED
    limit: int | None = None
    used: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSurroundings:
    """The facts that the checks of this package judge.

    Attributes:
        node: the Node object.
        pods: the node's pods.
        settings: the configuration that the kubelet will start with.
        current: version of the running kubelet; ``None`` if unknown.
        unit: name of the kubelet's unit.
        ends_all: whether stopping the unit ends all processes in its cgroup.
        systemd: its version.
        hostname: of the host; empty if unknown.
        filesystem: type of the filesystem that holds the kubelet's directory; empty if unknown.
        bound: services that run now and stop with the kubelet.
        daemons: other processes in the kubelet's cgroup.
        package_jobs: services that run now and may exchange programs.
        marking: configuration files of the network that refer to a chain which kubelets created.
        program: path of the kubelet's program; empty if unknown.
        package: the package that it belongs to; ``None`` if it belongs to none.
        package_policy: what is wanted of a package that is not held.
        dpkg: whether a package can be held now; ``None`` if none has to be.
        cgroups: ``None`` if the kubelet has none for its pods, or if it is unknown how it names them.
    """

    node: Json = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    settings: Configured = UNCONFIGURED
    gates: Mapping[str, bool] = field(default_factory=dict)
    current: KubeletVersion | None = None
    target: KubeletVersion | None = None
    unit: str = ""
    ends_all: bool = True
    systemd: int = OLDEST_SYSTEMD
    hostname: str = ""
    filesystem: str = ""
    bound: tuple[str, ...] = ()
    daemons: tuple[Daemon, ...] = ()
    package_jobs: tuple[str, ...] = ()
    marking: tuple[str, ...] = ()
    program: str = ""
    package: Package | None = None
    package_policy: PackagePolicy = PackagePolicy.REFUSE
    dpkg: DpkgState | None = None
    cgroups: PodCgroups | None = None

    @property
    def holds_package(self) -> bool:
        """Whether the run sees to it that the package is held."""
        wanted = self.package_policy is PackagePolicy.HOLD
        return wanted and self.package is not None and self.package.manager == DPKG


NOTHING_AROUND = HostSurroundings()
