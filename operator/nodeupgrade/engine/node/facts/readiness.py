"""Gather what decides whether the new kubelet would start and admit every pod. Changes nothing."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.domain.node.checks.admission import HostFacts
from nodeupgrade.domain.node.checks.pod_security import has_user_namespace, seccomp_profiles
from nodeupgrade.domain.node.host.mounts import has_option, is_read_only
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.pods import Pod
from nodeupgrade.engine.node.facts import manifests
from nodeupgrade.kubelet.layout import DEVICE_STATE, READ_AT_START, KubeletLayout
from nodeupgrade.ports.node.files import FilesView

MOUNTS = PurePosixPath("/proc/1/mountinfo")
CGROUP_V2_MARK = PurePosixPath("/sys/fs/cgroup/cgroup.controllers")
APPARMOR = PurePosixPath("/sys/module/apparmor/parameters/enabled")
APPARMOR_PROFILES = PurePosixPath("/sys/kernel/security/apparmor/profiles")
NUMA_NODES = PurePosixPath("/sys/devices/system/node/online")
KUBELETS_OWN = "kubelet.sock"
"""The socket at which device plugins register; theirs are beside it."""
# Names of a pod's cgroup with either driver. The agent's pod sees other pods' paths relative to its own, so the
# beginning may be missing; there may be a name before "kubepods" (cgroupRoot).
POD_SLICE = re.compile(r"(?:.*-)?kubepods-.*pod[0-9a-f_-]+\.slice")
POD_DIRECTORY = re.compile(r"pod[0-9a-f]{8}-[0-9a-f-]+|pod[0-9a-f]{32}")


def unchangeable(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the immutable paths among those a run changes: the program, its directory, and static pod manifests."""
    paths = [] if program is None else [program, program.parent]
    if layout.manifests is not None:
        paths += [PurePosixPath(layout.manifests), *manifests.paths(files, layout)]
    return tuple(str(path) for path in paths if files.immutable(path))


def read_only(files: FilesView, *directories: PurePosixPath) -> tuple[str, ...]:
    """Return the directories that are mounted read-only on the host."""
    table = mounts(files)
    return tuple(str(directory) for directory in directories if is_read_only(table, directory))


def forbids_execution(files: FilesView, directory: PurePosixPath) -> bool:
    """Report whether a directory is mounted ``noexec``. Other obstacles to running programs are not detected."""
    return has_option("noexec", mounts(files), directory)


def mounts(files: FilesView) -> str:
    """Return the host's mount table, which may differ from this process's."""
    return (files.read(MOUNTS) or b"").decode(errors="surrogateescape")


def cgroup_driver(files: FilesView, inventory: Inventory) -> str | None:
    """Detect the driver by the path of any pod's cgroup: a slice with systemd, a directory with cgroupfs."""
    for process in (sandbox.process for sandbox in inventory.sandboxes):
        data = None if process is None else files.read(PurePosixPath(f"/proc/{process.pid}/cgroup"))
        for part in (data or b"").decode(errors="replace").replace("\n", "/").split("/"):
            if POD_SLICE.fullmatch(part):
                return "systemd"
            if POD_DIRECTORY.fullmatch(part):
                return "cgroupfs"
    return None


def state(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the content of the kubelet's state files, by their path below its root directory."""
    found = {name: files.read(PurePosixPath(layout.root) / name) for name in READ_AT_START}
    return {name: data for name, data in found.items() if data is not None}


def host(files: FilesView, layout: KubeletLayout, pods: Iterable[Pod] = ()) -> HostFacts:
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
