"""Gather facts about the host that surrounds the kubelet. Changes nothing."""

from pathlib import PurePosixPath

from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.node.checks.facts import NodeFacts, Surroundings
from nodeupgrade.node.checks.other_tools import INSTALLERS, UPDATERS
from nodeupgrade.node.facts.daemons import find_daemons
from nodeupgrade.node.facts.device_access import device_access, keeping
from nodeupgrade.node.facts.pod_cgroups import pod_cgroups
from nodeupgrade.node.facts.volume_claims import read_claims
from nodeupgrade.node.host.files.mounted_volumes import mounted_volumes
from nodeupgrade.node.host.files.mounts import mount_holding, mount_table
from nodeupgrade.node.host.packages.dpkg_database import DIVERSIONS, DPKG, INFO, STATUS, Package
from nodeupgrade.node.host.packages.ownership import assumed_owners, listed_as, owner_by_dpkg, owner_by_rpm
from nodeupgrade.node.node import HostView
from nodeupgrade.node.own_directories import selinux_is_on
from nodeupgrade.text import trimmed

HOSTNAME = PurePosixPath("/proc/sys/kernel/hostname")
"""The agent's pod is in the host's network, and so in the host's UTS namespace."""
NETWORKS = PurePosixPath("/etc/cni/net.d")
MARKING_CHAIN = b"KUBE-MARK-MASQ"
PACKAGE_JOBS = (
    "apt-daily-upgrade.service",
    "dnf-automatic-install.service",
    "dnf-automatic.service",
    "os-update.service",
    "transactional-update.service",
)
"""Units of apt, dnf and zypper that run only while packages are upgraded."""
RPM = (PurePosixPath("/usr/lib/sysimage/rpm"), PurePosixPath("/var/lib/rpm"))
LOCKS = tuple(
    PurePosixPath("/etc") / name
    for name in (
        *("dnf/plugins/versionlock.list", "yum/pluginconf.d/versionlock.list", "dnf/versionlock.toml"),
        *("dnf/dnf.conf", "yum.conf"),
    )
)
REPOSITORIES = PurePosixPath("/etc/yum.repos.d")


def look_at_surroundings(host: HostView, facts: NodeFacts) -> Surroundings:
    """Gather the facts about the host, and the volumes on it, that are not known yet."""
    files, unit, status = host.files, facts.kubelet.unit, host.services.status
    table, selinux = mount_table(files), selinux_is_on(files)
    cgroups = pod_cgroups(files, table, facts)
    devices = device_access(files, host.services, facts.inventory)
    mount = mount_holding(table, PurePosixPath(facts.readiness.layout.root))
    program = None if facts.kubelet.program is None else mount_holding(table, PurePosixPath(facts.kubelet.program))
    package, assumed = (None, False) if facts.kubelet.program is None else _package(host, facts.kubelet.program)
    return Surroundings(
        ends_all=not unit.spares_others,
        systemd=host.services.version(),
        hostname=trimmed((files.read(HOSTNAME) or b"").decode(errors="replace")),
        filesystem="" if mount is None else mount.kind,
        remote_program="" if program is None or not program.remote else program.kind,
        bound=tuple(name for name in facts.kubelet_start.bound_by if name.endswith(".service")),
        daemons=tuple(find_daemons(files, unit)),
        package_jobs=tuple(name for name in PACKAGE_JOBS if not status(name).down),
        updaters=tuple(name for name in UPDATERS if not status(name).down),
        installers=tuple(name for name in INSTALLERS if status(name).fragment_path),
        marking=tuple(str(path) for path in files.list(NETWORKS) if MARKING_CHAIN in (files.read(path) or b"")),
        cgroups=None if cgroups is None else keeping(cgroups, devices),
        fragile_devices=devices.fragile,
        package=package,
        package_assumed=assumed,
        dpkg=host.packages.state() if _is_to_hold(package, facts) else None,
        mounted=mounted_volumes(table),
        claims=tuple(read_claims(host, facts, labels=selinux)),
        selinux=selinux,
    )


def _is_to_hold(package: Package | None, facts: NodeFacts) -> bool:
    to_hold = package is not None and package.manager == DPKG and not package.held
    return to_hold and facts.spec.kubelet.package is PackagePolicy.HOLD


def _package(host: HostView, path: str) -> tuple[Package | None, bool]:
    """Return the package that a program belongs to, and whether that is assumed; without a package manager, none."""
    files, program = host.files, PurePosixPath(path)
    status = files.read(STATUS) or b""
    if trimmed(
        status.decode(errors="replace")
    ):  # dpkg may be a mere tool where rpm manages the system, and has no package then
        listed = (path for path in files.list(INFO) if path.suffix == ".list")
        lists = ((path, files.read(path) or b"") for path in listed)
        return owner_by_dpkg(program, lists, files.read(DIVERSIONS) or b"", status), False
    if not any(files.list(database) for database in RPM):
        return None, False
    repositories = (path for path in files.list(REPOSITORIES) if path.suffix == ".repo")
    locks = [files.read(path) or b"" for path in (*LOCKS, *repositories)]
    owners = _rpm_owners(host, program)
    if owners is None:
        return owner_by_rpm(assumed_owners(program), locks), True
    return owner_by_rpm(owners, locks), False


def _rpm_owners(host: HostView, program: PurePosixPath) -> tuple[str, ...] | None:
    """Ask rpm for the owners of a program under each of its names; ``None`` if an answer is unclear."""
    names = (name for name in sorted(listed_as(program)) if name == program or host.files.real(name) == program)
    found: list[str] = []
    for name in names:
        if (owners := host.packages.rpm_owners(name)) is None:
            return None
        found += owners
    return tuple(dict.fromkeys(found))
