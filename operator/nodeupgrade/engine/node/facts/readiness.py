"""Gather what decides whether the new kubelet would start and admit every pod. Changes nothing."""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePosixPath

import yaml

from nodeupgrade.api.yaml import read_one
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.checks.facts import HostFacts
from nodeupgrade.domain.node.checks.pod_security import has_user_namespace, seccomp_profiles
from nodeupgrade.domain.node.checks.startup import Identity
from nodeupgrade.domain.node.exchanged_files import EntryKind
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.mounts import is_mount_point, is_read_only
from nodeupgrade.domain.pods import Pod
from nodeupgrade.engine.node.facts.own_places import mounts
from nodeupgrade.engine.node.facts.runtime import StartWithFiles
from nodeupgrade.engine.node.node import ReadOnlyNode
from nodeupgrade.kubelet.credentials import CredentialProgramError, parse
from nodeupgrade.kubelet.flags import started_with
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, DEVICE_STATE, READ_AT_START, KubeletLayout, config_directory
from nodeupgrade.ports.files import FilesView
from nodeupgrade.ports.kubelet import TrialStart

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
    changed = [] if program is None else [program, program.parent]
    if layout.manifests is not None:
        changed += [PurePosixPath(layout.manifests), *paths(files, layout)]
    return tuple(str(path) for path in changed if files.immutable(path))


def mounted(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the mount points among the files that a run replaces: the program, and static pod manifests."""
    table, replaced = mounts(files), [*([] if program is None else [program]), *paths(files, layout)]
    return tuple(str(path) for path in replaced if is_mount_point(table, path))


def read_only(files: FilesView, *directories: PurePosixPath) -> tuple[str, ...]:
    """Return the directories that are mounted read-only on the host."""
    table = mounts(files)
    return tuple(str(directory) for directory in directories if is_read_only(table, directory))


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


# Gather the credentials that a starting kubelet would use. Asks nobody and changes nothing.

ROTATED = "kubelet-client-current.pem"
"""In the directory of certificates: what a kubelet with rotateCertificates uses rather than its kubeconfig's."""


def identity(files: FilesView, layout: KubeletLayout, now: datetime) -> Identity | None:
    """Return the credentials; ``None`` if the kubelet has no kubeconfig."""
    if layout.kubeconfig is None:
        return None
    path = PurePosixPath(layout.kubeconfig)
    text = files.read(path)
    if text is None:
        return Identity(now=now, problem=f"there is no {path}")
    try:
        if not isinstance(read_one(text), dict):
            return Identity(now=now, problem=f"{path} is not a kubeconfig")
    except (yaml.YAMLError, UnicodeError):
        return Identity(now=now, problem=f"{path} is not a kubeconfig")
    found = _rotated(files, layout)
    try:
        credentials = parse(text, path.parent)
    except ValueError as error:
        return Identity(now=now, certificates=found, by_program=isinstance(error, CredentialProgramError))
    if credentials.program is not None:
        return Identity(now=now, certificates=found, by_program=True)
    named = credentials.certificate
    if named.data is not None:
        found[str(path)] = named.data
    elif named.path is not None and (data := files.read(PurePosixPath(named.path))) is not None:
        found[named.path] = data
    problem = f"there is no {named.path}, which {path} names" if named.path is not None and not found else ""
    return Identity(now=now, certificates=found, problem=problem)


def _rotated(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    settings = layout.settings
    if settings.text("rotate-certificates", "rotateCertificates").lower() != "true":
        return {}
    root = settings.flag("root-dir") or DEFAULT_ROOT
    path = PurePosixPath(settings.flag("cert-dir") or f"{root}/pki") / ROTATED
    data = files.read(path)
    return {} if data is None else {str(path): data}


# The manifests of static pods, as a kubelet finds them: regular files and symbolic links, except hidden ones.


def manifests(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the contents of the manifests by path; behind a symbolic link is the path of the file that it leads to."""
    found = {str(path): files.read(path) for path in paths(files, layout)}
    return {path: data for path, data in found.items() if data is not None}


def paths(files: FilesView, layout: KubeletLayout) -> tuple[PurePosixPath, ...]:
    """Return the paths of the manifests, sorted. Two names of one file remain two, since they are two pods."""
    if layout.manifests is None:
        return ()
    directory = PurePosixPath(layout.manifests)
    here = [path for path in files.walk(directory) if path.parent == directory and not path.name.startswith(".")]
    links = [path for path in here if (entry := files.entry(path)) is not None and entry.kind is EntryKind.LINK]
    found = {path for path in here if path not in links}
    for link in links:
        if (real := files.real(link)) is not None:
            found.add(link if real in found else real)
    return tuple(sorted(found))


# Let the new kubelet try the configuration that it would be started with. Changes nothing.

OF_THE_PROCESS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"})
"""Variables by which systemd connects itself with one process."""


def dry_run(node: ReadOnlyNode, program: PurePosixPath, start: StartWithFiles, *, pid: int) -> str:
    """Return what a new or an old kubelet prints that is started like this, or why it could not be tried.

    It gets the environment of the running kubelet, ``pid``, and the configuration files that it would read.
    """
    directory = config_directory(start.words)
    there = directory is not None and node.files.changed(PurePosixPath(directory)) is not None
    try:
        environment = start.environment(node.kubelet.environment(pid))
        trial = TrialStart(
            words=started_with(start.words),
            environment={name: value for name, value in environment.items() if name not in OF_THE_PROCESS},
            files={str(path): data for path in start.configuration if (data := start.files.read(path)) is not None},
            directories=(directory,) if directory is not None and there else (),
        )
        return node.kubelet.dry_run(program, trial)
    except (StepFailed, Transient) as error:
        return str(error)
