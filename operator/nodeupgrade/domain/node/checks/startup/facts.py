"""The facts on which the start of the new kubelet depends."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.domain.node.host import RuntimeInfo, UnitStatus
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The facts that the checks of a start judge.

    Attributes:
        current: version of the running kubelet; ``None`` if unknown.
        layout: its command line and configuration.
        dry_run: what the new kubelet prints in a dry run; ``None`` if there is no program to run.
        units: the units of the kubelet and the runtime.
        unchangeable: paths that have to be changed but are immutable.
        read_only: directories that have to be written to but are mounted read-only.
        cgroup_driver: the driver that created the cgroups of the running pods; ``None`` if unknown.
        cgroup_v2: whether the node has the unified hierarchy.
        state: content of the kubelet's state files, by file name.
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
