"""Gather what the admission of pods depends on."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.cluster.pods import Pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import DEVICE_STATE, KubeletLayout, path_of
from nodeupgrade.kubelet.settings import cpus_in
from nodeupgrade.kubelet.user_ids import UserIds, id_of, id_ranges, is_in_files
from nodeupgrade.node.checks.facts import HostFacts
from nodeupgrade.node.checks.pod_security import has_user_namespace, seccomp_profiles
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.text import lines, trimmed

APPARMOR = PurePosixPath("/sys/module/apparmor/parameters/enabled")
APPARMOR_PROFILES = PurePosixPath("/sys/kernel/security/apparmor/profiles")
NUMA_NODES = PurePosixPath("/sys/devices/system/node/online")
SEARCHED = tuple(
    PurePosixPath(directory)
    for directory in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
)
"""Where systemd looks for a program without a path, whatever the unit's environment (systemd.service)."""
ACCOUNTS = PurePosixPath("/etc")
KUBELETS_OWN = "kubelet.sock"
"""The socket at which device plugins register; theirs are beside it."""


def look_at_admission(files: FilesView, layout: KubeletLayout, pods: Iterable[Pod] = ()) -> HostFacts:
    """Gather the host properties that the admission of these pods depends on."""
    root = PurePosixPath(layout.root)
    seccomp = PurePosixPath(layout.settings.flag("seccomp-profile-root") or root / "seccomp")
    named = {name for pod in pods for name in seccomp_profiles(pod)}
    records = {pod.ref.uid: _record(files, root, pod) for pod in pods if has_user_namespace(pod)}
    profiles, own = files.read(APPARMOR_PROFILES), id_of(_text(files, "passwd"))
    plugins = (path.name for path in files.sockets_in(path_of(DEVICE_STATE, layout.root).parent))
    return HostFacts(
        apparmor=(files.read(APPARMOR) or b"").startswith(b"Y"),
        profiles=frozenset() if profiles is None else _profiles(profiles.decode(errors="replace")),
        device_plugins=frozenset(plugins) - {KUBELETS_OWN},
        numa_nodes=_count(trimmed((files.read(NUMA_NODES) or b"").decode(errors="replace"))),
        seccomp=frozenset(name for name in named if _is_there(files, seccomp / name)),
        namespaces={uid: data for uid, data in records.items() if data is not None},
        lacks_getsubids=own is not None
        and not any(files.executable(directory / "getsubids") for directory in SEARCHED),
        user_ids=UserIds() if own is None else _user_ids(files, own),
    )


def _user_ids(files: FilesView, own: str) -> UserIds:
    if not is_in_files(_text(files, "nsswitch.conf")):
        return UserIds()
    group = id_of(_text(files, "group"))
    return UserIds(id_ranges(_text(files, "subuid"), own), id_ranges(_text(files, "subgid"), group))


def _text(files: FilesView, name: str) -> str:
    return (files.read(ACCOUNTS / name) or b"").decode(errors="replace")


def _is_there(files: FilesView, named: PurePosixPath) -> bool:
    """Report whether there is a file of a name that a pod gives: a directory, too long a name, or no name at all."""
    try:
        return files.size(named) is not None
    except (StepFailed, ValueError):
        return False


def _record(files: FilesView, root: PurePosixPath, pod: Pod) -> bytes | None:
    """Return the kubelet's record of a pod's user namespace; a UID cannot name another path, or none at all."""
    uid = pod.ref.uid
    try:
        return files.read(root / "pods" / uid / "userns") if PurePosixPath(uid).name == uid else None
    except (StepFailed, ValueError):
        return None


def _profiles(text: str) -> frozenset[str]:
    """Parse names from lines such as ``docker-default (enforce)``."""
    return frozenset(line.rpartition(" (")[0] for line in lines(text))


def _count(listed: str) -> int:
    """Count the entries of a list such as ``0-1,3``; at least one."""
    try:
        return max(1, len(cpus_in(listed)))
    except ValueError as error:
        raise StepFailed(f"cannot read {NUMA_NODES}: {error}") from error
