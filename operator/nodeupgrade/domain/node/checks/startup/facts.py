"""The facts on which the start of the new kubelet depends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.domain.node.host.disk_usage import DiskUsage
from nodeupgrade.domain.node.runtime_info import RuntimeInfo
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProviders:
    """The programs that fetch credentials for images, as the command line names them.

    Attributes:
        directory: where the programs are.
        files: content of each configuration file, by path; ``None`` if there is no such file.
        executable: names of the programs that are there.
    """

    directory: str
    files: Mapping[str, bytes | None]
    executable: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The credentials that a kubelet would start with.

    Attributes:
        now: when they were looked at, by the API server's clock if that is known.
        certificates: client certificates that it may use, by path; good if one of them is.
        problem: why there are none; empty if nothing is wrong.
    """

    now: datetime
    certificates: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingHost:
    """What a starting kubelet reads of its host.

    Attributes:
        swaps: content of /proc/swaps; ``None`` if there is no such file.
        kernel: kernel settings by name, such as ``vm/panic_on_oom``; empty if a setting could not be read.
        disks: how full each filesystem is, by the name that a kubelet gives it and by path.
        credential_providers: ``None`` if none are configured.
        identity: ``None`` if the kubelet has no kubeconfig.
        inotify: inotify instances that the superuser has, and may have; ``None`` if that could not be read.
        online_cpus: as Linux lists them, such as ``0-3``; empty if that could not be read.
    """

    swaps: bytes | None = None
    kernel: Mapping[str, str] = field(default_factory=dict)
    disks: Mapping[tuple[str, str], DiskUsage] = field(default_factory=dict)
    credential_providers: CredentialProviders | None = None
    identity: Identity | None = None
    inotify: tuple[int, int] | None = None
    online_cpus: str = ""


NOTHING_READ = StartingHost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The facts that the checks of a start judge.

    Attributes:
        current: version of the running kubelet; ``None`` if unknown.
        layout: its command line and configuration.
        dry_run: what the new kubelet prints in a dry run; ``None`` if none can run with its arguments.
        units: the units of the kubelet and the runtime.
        unchangeable: paths that have to be changed but are immutable.
        read_only: directories that have to be written to but are mounted read-only.
        host: what a starting kubelet reads of its host.
        cgroup_driver: the driver that created the cgroups of the running pods; ``None`` if unknown.
        cgroup_v2: whether the node has the unified hierarchy.
        state: content of the kubelet's state files, by their path below its root directory.
    """

    current: KubeletVersion | None
    target: KubeletVersion
    layout: KubeletLayout
    dry_run: str | None
    units: tuple[UnitStatus, ...]
    unchangeable: tuple[str, ...]
    runtime: RuntimeInfo
    cgroup_driver: str | None
    cgroup_v2: bool
    state: Mapping[str, bytes]
    read_only: tuple[str, ...] = ()
    host: StartingHost = NOTHING_READ
