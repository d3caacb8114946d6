"""Gather what surrounds the kubelet on its host. Changes nothing."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.shared.run_settings import PackagePolicy
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.packages import owner_by_dpkg, owner_by_rpm
from nodeupgrade.domain.node.checks.surroundings import Daemon, HostSurroundings
from nodeupgrade.domain.node.host.mounts import holder
from nodeupgrade.domain.node.host.packages import DIVERSIONS, DPKG, INFO, STATUS, Package
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.engine.node.facts.host.pod_cgroups import HIERARCHIES, UNIFIED, pod_cgroups
from nodeupgrade.engine.node.facts.readiness import mounts
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.ports.node.files import FilesView
from nodeupgrade.ports.node.services import ServicesView

HOSTNAME = PurePosixPath("/proc/sys/kernel/hostname")
"""The agent's pod is in the host's network, and so in the host's UTS namespace."""
NETWORKS = PurePosixPath("/etc/cni/net.d")
MARKING_CHAIN = b"KUBE-MARK-MASQ"
PACKAGE_JOBS = ("apt-daily-upgrade.service", "dnf-automatic-install.service", "dnf-automatic.service")
"""Units that run only while packages are upgraded."""
RPM = (PurePosixPath("/usr/lib/sysimage/rpm"), PurePosixPath("/var/lib/rpm"))
LOCKS = tuple(
    PurePosixPath("/etc") / name
    for name in (
        *("dnf/plugins/versionlock.list", "yum/pluginconf.d/versionlock.list", "dnf/versionlock.toml"),
        *("dnf/dnf.conf", "yum.conf"),
    )
)
REPOSITORIES = PurePosixPath("/etc/yum.repos.d")
ENDS_ALL = frozenset({"control-group", "mixed"})
DOWN = frozenset({"inactive", "failed"})
INIT = "1"


def look(host: HostView, facts: NodeFacts) -> HostSurroundings:
    """Gather the facts about the host that are not known yet."""
    files, unit = host.files, facts.kubelet.unit
    table = mounts(files)
    mount = holder(table, PurePosixPath(facts.readiness.layout.root))
    package = None if facts.kubelet.program is None else _package(files, PurePosixPath(facts.kubelet.program))
    return HostSurroundings(
        unit=unit.name,
        ends_all=unit.kill_mode in ENDS_ALL,
        systemd=host.services.version(),
        hostname=(files.read(HOSTNAME) or b"").decode(errors="replace").strip(),
        filesystem="" if mount is None else mount.kind,
        bound=tuple(name for name in unit.bound_by if name.endswith(".service") and _runs(host.services, name)),
        daemons=tuple(_daemons(files, unit)),
        package_jobs=tuple(name for name in PACKAGE_JOBS if _runs(host.services, name)),
        marking=tuple(str(path) for path in files.list(NETWORKS) if MARKING_CHAIN in (files.read(path) or b"")),
        cgroups=pod_cgroups(files, table, facts),
        package=package,
        dpkg=host.packages.state() if _is_to_hold(package, facts) else None,
    )


def _is_to_hold(package: Package | None, facts: NodeFacts) -> bool:
    to_hold = package is not None and package.manager == DPKG and not package.held
    return to_hold and facts.spec.kubelet.package is PackagePolicy.HOLD


def _package(files: FilesView, program: PurePosixPath) -> Package | None:
    """Return the package that a program belongs to; without a package manager, none."""
    status = files.read(STATUS)
    if status is not None:
        listed = (path for path in files.list(INFO) if path.suffix == ".list")
        lists = ((path, files.read(path) or b"") for path in listed)
        return owner_by_dpkg(program, lists, files.read(DIVERSIONS) or b"", status)
    if not any(files.list(database) for database in RPM):
        return None
    repositories = (path for path in files.list(REPOSITORIES) if path.suffix == ".repo")
    return owner_by_rpm(program, (files.read(path) or b"" for path in (*LOCKS, *repositories)))


def _runs(services: ServicesView, unit: str) -> bool:
    return services.status(unit).active_state not in DOWN


def _daemons(files: FilesView, unit: UnitStatus) -> Iterator[Daemon]:
    """Yield the processes in the unit's cgroup that init has adopted, because their parent has ended."""
    if not unit.control_group:
        return
    group = unit.control_group.lstrip("/")
    lists = (files.read(hierarchy / group / "cgroup.procs") for hierarchy in (UNIFIED, HIERARCHIES / "systemd"))
    for pid in next((listed for listed in lists if listed), b"").decode(errors="replace").split():
        if int(pid) == unit.main_pid:
            continue
        name, parent = _name_and_parent(files, pid)
        if parent == INIT:
            yield Daemon(pid=int(pid), name=name)


def _name_and_parent(files: FilesView, pid: str) -> tuple[str, str]:
    """Return name and parent of a process, from ``/proc/PID/stat``; both empty if it has ended."""
    try:
        text = (files.read(PurePosixPath(f"/proc/{pid}/stat")) or b"").decode(errors="replace")
    except StepFailed:  # it ends while it is read
        return "", ""
    head, _, tail = text.rpartition(")")  # a name may itself contain parentheses
    fields = tail.split()
    return head.partition("(")[2], fields[1] if len(fields) > 1 else ""
