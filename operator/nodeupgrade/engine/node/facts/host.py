"""Gather what a starting kubelet reads of its host. Changes nothing."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import PurePosixPath

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.checks.credentials import named_in
from nodeupgrade.domain.node.checks.facts import HostFacts, NodeFacts, Surroundings
from nodeupgrade.domain.node.checks.host import PROTECTED
from nodeupgrade.domain.node.checks.other_tools import INSTALLERS
from nodeupgrade.domain.node.checks.pod_security import has_user_namespace, seccomp_profiles
from nodeupgrade.domain.node.checks.startup import CredentialProviders, StartingHost
from nodeupgrade.domain.node.checks.volumes import heeds_deletion
from nodeupgrade.domain.node.mounts import DiskUsage, holder, mounted_volumes
from nodeupgrade.domain.node.packages import (
    DIVERSIONS,
    DPKG,
    INFO,
    STATUS,
    Package,
    assumed_owners,
    listed_as,
    owner_by_dpkg,
    owner_by_rpm,
)
from nodeupgrade.domain.node.runtime import RuntimeInfo
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.domain.nodes import ahead
from nodeupgrade.domain.pods import Pod
from nodeupgrade.engine.node.facts.as_kubelet import read_claims
from nodeupgrade.engine.node.facts.kubelet_files import identity
from nodeupgrade.engine.node.facts.own_places import mounts
from nodeupgrade.engine.node.facts.pod_cgroups import HIERARCHIES, UNIFIED, pod_cgroups
from nodeupgrade.engine.node.node import HostView, ReadOnlyNode
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, DEVICE_STATE, KubeletLayout
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.ports.files import FilesView

SWAPS = PurePosixPath("/proc/swaps")
KERNEL = PurePosixPath("/proc/sys")
MEMINFO = PurePosixPath("/proc/meminfo")
INOTIFY = KERNEL / "fs/inotify/max_user_instances"
ONLINE_CPUS = PurePosixPath("/sys/devices/system/cpu/online")
SUFFIXES = (".json", ".yaml", ".yml")


def look_at_host(
    node: ReadOnlyNode, then: FilesView, layout: KubeletLayout, runtime: RuntimeInfo, node_object: Json
) -> StartingHost:
    """Return what the kubelet with these settings would read, of files as they are then.

    Its client certificate is judged by the API server, and so by the API server's clock.
    """
    files, settings = node.files, layout.settings
    by_server = node.clock.now() - (ahead(node_object) or timedelta())
    return StartingHost(
        swaps=files.read(SWAPS),
        kernel={name: (files.read(KERNEL / name) or b"").decode(errors="replace").strip() for name in PROTECTED},
        disks=dict(_disks(files, settings, runtime)),
        credential_providers=_credential_providers(then, settings),
        identity=identity(files, layout, by_server),
        inotify=_inotify(node),
        online_cpus=(files.read(ONLINE_CPUS) or b"").decode(errors="replace").strip(),
        memory=dict(_meminfo(files)),
    )


def _meminfo(files: FilesView) -> Iterator[tuple[str, int]]:
    """Yield what /proc/meminfo says, in bytes; lines without a unit are numbers of something."""
    for line in (files.read(MEMINFO) or b"").decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        match value.split():
            case [number, "kB"] if number.isdecimal():
                yield name, int(number) * 1024
            case [number] if number.isdecimal():
                yield name, int(number)


def _inotify(node: ReadOnlyNode) -> tuple[int, int] | None:
    most = (node.files.read(INOTIFY) or b"").strip()
    return (node.kubelet.inotify_instances(), int(most)) if most.isdigit() else None


def _disks(files: FilesView, settings: Configured, runtime: RuntimeInfo) -> Iterator[tuple[tuple[str, str], DiskUsage]]:
    root = settings.flag("root-dir") or DEFAULT_ROOT
    yield ("nodefs", root), files.usage(PurePosixPath(root))
    images = runtime.images or (None if runtime.places is None else runtime.places.root)
    if images is not None:
        yield ("imagefs", images), files.usage(PurePosixPath(images))


def _credential_providers(files: FilesView, settings: Configured) -> CredentialProviders | None:
    named = settings.flag("image-credential-provider-config")
    directory = settings.flag("image-credential-provider-bin-dir")
    if not named or not directory:
        return None
    found = _configuration(files, PurePosixPath(named))
    names = {name for data in found.values() for name in named_in(data)}
    usable = {name for name in names if "/" not in name and _is_program(files, PurePosixPath(directory) / name)}
    return CredentialProviders(directory=directory, files=found, executable=frozenset(usable))


def _configuration(files: FilesView, path: PurePosixPath) -> Mapping[str, bytes | None]:
    """Return the file, or those in the directory, that a kubelet reads."""
    try:
        return {str(path): files.read(path)}
    except StepFailed:  # a directory
        return {str(each): files.read(each) for each in files.list(path) if each.suffix in SUFFIXES}


def _is_program(files: FilesView, path: PurePosixPath) -> bool:
    try:
        return files.executable(path)
    except StepFailed:
        return False


# Gather what the admission of pods depends on.

APPARMOR = PurePosixPath("/sys/module/apparmor/parameters/enabled")
APPARMOR_PROFILES = PurePosixPath("/sys/kernel/security/apparmor/profiles")
NUMA_NODES = PurePosixPath("/sys/devices/system/node/online")
KUBELETS_OWN = "kubelet.sock"
"""The socket at which device plugins register; theirs are beside it."""


def look_at_admission(files: FilesView, layout: KubeletLayout, pods: Iterable[Pod] = ()) -> HostFacts:
    """Gather the properties of the host that the admission of these pods depends on."""
    root = PurePosixPath(layout.root)
    seccomp = PurePosixPath(layout.settings.flag("seccomp-profile-root") or root / "seccomp")
    named = {name for pod in pods for name in seccomp_profiles(pod)}
    records = {pod.ref.uid: _record(files, root, pod) for pod in pods if has_user_namespace(pod)}
    profiles = files.read(APPARMOR_PROFILES)
    plugins = (path.name for path in files.sockets_in((root / DEVICE_STATE).parent))
    return HostFacts(
        apparmor=(files.read(APPARMOR) or b"").startswith(b"Y"),
        profiles=frozenset() if profiles is None else _profiles(profiles.decode(errors="replace")),
        device_plugins=frozenset(plugins) - {KUBELETS_OWN},
        numa_nodes=_count((files.read(NUMA_NODES) or b"").decode(errors="replace").strip()),
        seccomp=frozenset(name for name in named if files.size(seccomp / name) is not None),
        namespaces={uid: data for uid, data in records.items() if data is not None},
    )


def _record(files: FilesView, root: PurePosixPath, pod: Pod) -> bytes | None:
    """Return what the kubelet noted of a pod's user namespace; no UID leads anywhere else."""
    uid = pod.ref.uid
    return files.read(root / "pods" / uid / "userns") if PurePosixPath(uid).name == uid else None


def _profiles(text: str) -> frozenset[str]:
    """Parse names from lines such as ``docker-default (enforce)``."""
    return frozenset(line.rpartition(" (")[0] for line in text.splitlines())


def _count(listed: str) -> int:
    """Count the entries of a list such as ``0-1,3``; at least one."""
    found = re.findall(r"(\d+)(?:-(\d+))?", listed)
    return max(1, sum(int(last or first) - int(first) + 1 for first, last in found))


# Gather what surrounds the kubelet on its host. Changes nothing.

HOSTNAME = PurePosixPath("/proc/sys/kernel/hostname")
"""The agent's pod is in the host's network, and so in the host's UTS namespace."""
NETWORKS = PurePosixPath("/etc/cni/net.d")
SELINUX = PurePosixPath("/sys/fs/selinux/enforce")
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
INIT = "1"


def look_at_surroundings(host: HostView, facts: NodeFacts) -> Surroundings:
    """Gather the facts about the host, and the volumes on it, that are not known yet."""
    files, unit, status = host.files, facts.kubelet.unit, host.services.status
    table = mounts(files)
    mount = holder(table, PurePosixPath(facts.readiness.layout.root))
    package, assumed = (None, False) if facts.kubelet.program is None else _package(host, facts.kubelet.program)
    return Surroundings(
        ends_all=not unit.spares_others,
        systemd=host.services.version(),
        hostname=(files.read(HOSTNAME) or b"").decode(errors="replace").strip(),
        filesystem="" if mount is None else mount.kind,
        bound=tuple(name for name in unit.bound_by if name.endswith(".service") and not status(name).down),
        daemons=tuple(_daemons(files, unit)),
        package_jobs=tuple(name for name in PACKAGE_JOBS if not status(name).down),
        installers=tuple(name for name in INSTALLERS if status(name).fragment_path),
        marking=tuple(str(path) for path in files.list(NETWORKS) if MARKING_CHAIN in (files.read(path) or b"")),
        cgroups=pod_cgroups(files, table, facts),
        package=package,
        package_assumed=assumed,
        dpkg=host.packages.state() if _is_to_hold(package, facts) else None,
        mounted=mounted_volumes(table),
        claims=tuple(read_claims(host, facts)) if heeds_deletion(facts.target, facts.current) else (),
        selinux=(files.read(SELINUX) or b"").strip() == b"1",
    )


def _is_to_hold(package: Package | None, facts: NodeFacts) -> bool:
    to_hold = package is not None and package.manager == DPKG and not package.held
    return to_hold and facts.spec.kubelet.package is PackagePolicy.HOLD


def _package(host: HostView, path: str) -> tuple[Package | None, bool]:
    """Return the package that a program belongs to, and whether that is assumed; without a package manager, none."""
    files, program = host.files, PurePosixPath(path)
    status = files.read(STATUS) or b""
    if status.strip():  # dpkg may be a mere tool where rpm manages the system, and has no package then
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
    """Ask rpm for the owners of a program under each of its names; ``None`` if it does not tell for any of them."""
    names = (name for name in sorted(listed_as(program)) if name == program or host.files.real(name) == program)
    found: list[str] = []
    for name in names:
        if (owners := host.packages.rpm_owners(name)) is None:
            return None
        found += owners
    return tuple(dict.fromkeys(found))


def _daemons(files: FilesView, unit: UnitStatus) -> Iterator[str]:
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
            yield f"{name} ({pid})"


def _name_and_parent(files: FilesView, pid: str) -> tuple[str, str]:
    """Return name and parent of a process, from ``/proc/PID/stat``; both empty if it has ended."""
    try:
        text = (files.read(PurePosixPath(f"/proc/{pid}/stat")) or b"").decode(errors="replace")
    except StepFailed:  # it ends while it is read
        return "", ""
    head, _, tail = text.rpartition(")")  # a name may itself contain parentheses
    fields = tail.split()
    return head.partition("(")[2], fields[1] if len(fields) > 1 else ""
