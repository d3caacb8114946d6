"""Gather which devices containers may use, and which of them a ``daemon-reload`` takes. Changes nothing."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple, Self

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.checks.facts import PodCgroups
from nodeupgrade.node.facts.oci_specs import Specifications
from nodeupgrade.node.host.device_rules import DeviceNames, DeviceRule, UnitDevices, is_common, lost_by_reload, rules_of
from nodeupgrade.node.host.files.files import LARGEST_MOUNT_TABLE, FilesView
from nodeupgrade.node.host.files.mounts import Mount, mount_table, mounts
from nodeupgrade.node.host.systemd.services import Look, ServicesView
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import number, words

MAJORS = PurePosixPath("/proc/devices")
UNIFIED = PurePosixPath("/sys/fs/cgroup")
MEMBERS = "cgroup.procs"
BELOW = ("", "container", "init.scope", "init")
"""Where a container's processes are: below its cgroup with crun, with systemd, and with Docker in the container."""
DEVICES_LIST = "devices.list"
INIT = 1
NVIDIA = 195
"""The major number of NVIDIA's GPUs."""
_GPU = re.compile(
    rb"^(?:[^ \n]+ ){2}([0-9:]+) /nvidia([0-9]{1,3}) /dev/nvidia\2 [^\n]* - ((?:dev)?tmpfs) ", re.MULTILINE
)
"""A GPU in a mount table, of which the author of a pod may make as much as the kernel allows.

It is mounted from the /dev of the node, or of a container with the driver. That is in memory, as is what anybody may
mount in a user namespace of his own, such as the shared memory of his pod: it counts there only if the node has it
mounted as a ``dev`` as well.
"""
_TUN, _TUN_FILE = DeviceRule("c", 10, 200), PurePosixPath("/dev/char/10:200")
"""/dev/net/tun, which every container may use. systemd knows nothing of it while its module is not loaded, by which
udev makes the file: before systemd 240, or where runc checks for the file (runc#3554). Nobody uses it until then.
"""
_CONSOLE = DeviceRule("c", 5, 1)
"""The node's console. Some runtimes are told to allow it to every container, each of which has a terminal instead."""
_VOLUME = "/volumes/kubernetes.io~"
"""In the mount point of a volume. Its content is the pod's: it may mount there what is no GPU, or make a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMounts:
    """The file systems that the node has mounted, by their devices (``major:minor``)."""

    volumes: frozenset[bytes] = frozenset()  # of pods
    devices: frozenset[bytes] = frozenset()  # directories of devices, such as /dev or /run/nvidia/driver/dev

    @classmethod
    def of(cls, table: Iterable[Mount]) -> Self:
        """Return those of the node's mount table."""
        found = [(each.source[0].encode(), each.point) for each in table]
        volumes = frozenset(device for device, point in found if _VOLUME in str(point))
        return cls(volumes=volumes, devices=frozenset(device for device, at in found if at.name == "dev") - volumes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAccess:
    """The devices of running containers, as the kernel writes them: ``c 195:0 rw``."""

    # those that systemd does not know of, by label of the container
    fragile: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # the others, unless every container has them, by path of the kernel's list
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Scope(NamedTuple):
    """The cgroup of a container, as systemd manages it."""

    unit: str
    path: PurePosixPath  # of the kernel's list of its devices; on cgroup v2, where there is none, of the cgroup
    rules: tuple[DeviceRule, ...]  # what it may use; on cgroup v2, the GPUs that are mounted in it
    lost: tuple[DeviceRule, ...]  # what a reload takes; on cgroup v2 also of what its runtime was told


def device_access(files: FilesView, services: ServicesView, inventory: Inventory) -> DeviceAccess:
    """Return the devices of running containers; none where systemd does not manage cgroups.

    Raises:
        StepFailed: something cannot be read.
    """
    scopes = tuple(_scopes(files, services))
    kept = {
        str(scope.path): tuple(str(rule) for rule in scope.rules if rule not in scope.lost and not is_common(rule))
        for scope in scopes
        if scope.path.name == DEVICES_LIST
    }
    return DeviceAccess(
        fragile={_label(inventory, scope.unit): tuple(map(str, scope.lost)) for scope in scopes if scope.lost},
        kept={path: rules for path, rules in kept.items() if rules},
    )


def keeping(cgroups: PodCgroups, devices: DeviceAccess) -> PodCgroups:
    """Return the cgroups of pods with the devices that a reload has to leave."""
    return replace(cgroups, complete=replace(cgroups.complete, devices=devices.kept))


@dataclass(slots=True)
class Harmless:
    """A look that lets a ``daemon-reload`` take no device: every reload comes directly after one."""

    files: FilesView
    services: ServicesView
    found: JsonValue = None  # what found_harmless() returned, if it is known

    @classmethod
    def by_now(cls, files: FilesView, services: ServicesView) -> Self:
        """Return a look that costs little as long as nothing changes. Raises as found_harmless()."""
        return cls(files, services, found_harmless(files, services))

    def __call__(self) -> None:
        """Raise as require_still_harmless()."""
        require_still_harmless(self.files, self.services, self.found)


@dataclass(slots=True)
class Unavoidable:
    """A look before a ``daemon-reload`` that no device may hold up, since the node would stay without a kubelet."""

    look: Look
    lost: str | None = None  # what the reload takes, as a sentence

    def __call__(self) -> None:
        """Only record what the reload takes."""
        try:
            self.look()
        except Exception as error:  # noqa: BLE001 - whatever it fails on, the kubelet cannot wait
            self.lost = f"systemd had to read its files: {error}"


def require_harmless_reload(files: FilesView, services: ServicesView) -> None:
    """Require that a ``daemon-reload`` takes no device, also from containers that came after the node was examined.

    Raises:
        StepFailed: it would, or something cannot be read.
    """
    for scope in _scopes(files, services):
        _require_nothing_lost(scope)


def found_harmless(files: FilesView, services: ServicesView) -> dict[str, JsonValue]:
    """Require the same, and return what that rests on: by scope, where its devices are seen and a digest of them.

    Raises:
        StepFailed: as require_harmless_reload().
    """
    found: dict[str, JsonValue] = dict.fromkeys(services.scope_names(), "")
    for scope in _scopes(files, services):
        _require_nothing_lost(scope)
        found[scope.unit] = f"{_digest(scope.rules)} {scope.path}"
    return found


def require_still_harmless(files: FilesView, services: ServicesView, found: JsonValue) -> None:
    """Require the same without a kubelet, where every tenth of a second counts.

    What systemd knows of hundreds of scopes takes it a second to tell, but it changes only with a new scope, or at the
    runtime's request, which then changes the kernel's list as well. Unless one of these is seen, what was found holds.

    Args:
        files: the node's files.
        services: its service manager.
        found: what found_harmless() returned; None if it is not known.

    Raises:
        StepFailed: as require_harmless_reload().
    """
    if not isinstance(found, Mapping) or not _holds(files, services, found):
        require_harmless_reload(files, services)


def _holds(files: FilesView, services: ServicesView, found: Mapping[str, JsonValue]) -> bool:
    present = services.scope_names()
    seen = [str(found[unit]).partition(" ") for unit in present & found.keys() if found[unit]]
    unified = any(not path.endswith(DEVICES_LIST) for _, _, path in seen)
    mounted = NodeMounts.of(mounts(mount_table(files))) if unified else NodeMounts()
    return present <= found.keys() and all(
        _digest(_usable(files, PurePosixPath(path), mounted)) == digest for digest, _, path in seen
    )


def _digest(rules: Iterable[DeviceRule]) -> str:
    return sha256("\n".join(sorted(map(str, rules))).encode()).hexdigest()[:16]


def _require_nothing_lost(scope: Scope) -> None:
    if scope.lost:
        raise StepFailed(
            f"{scope.unit} may use {', '.join(map(str, scope.lost))}, which systemd does not know of: a "
            "daemon-reload would take that away",
            reason=Reason.DEVICES_WOULD_BE_LOST,
        )


def _scopes(files: FilesView, services: ServicesView) -> Iterator[Scope]:
    """Yield the scopes whose devices systemd limits.

    Cgroup v1 says what a container may use. On cgroup v2 no file does, so the container's OCI specification counts, as
    do GPUs that are mounted in it, which the legacy hook of NVIDIA's container toolkit does.
    """
    known = services.devices()
    if not known:
        return
    table = tuple(mounts(mount_table(files)))
    points = (each.point for each in table if each.kind == "cgroup" and "devices" in each.options)
    mounted = NodeMounts.of(table)
    hierarchy, names = next(points, None), _names(files, services, known)
    unused = {_TUN} if files.entry(_TUN_FILE) is None else set[DeviceRule]()
    specifications = Specifications.of(files, table) if hierarchy is None else None
    for unit, devices in known.items():
        group = devices.group.lstrip("/")
        if not group or not devices.limited:
            continue
        path = UNIFIED / group if hierarchy is None else hierarchy / group / DEVICES_LIST
        rules = _usable(files, path, mounted)
        told = () if specifications is None else _told(specifications, unit, path)
        used = tuple(rule for rule in dict.fromkeys((*rules, *told)) if rule not in unused)
        yield Scope(unit, path, rules, lost_by_reload(used, devices, names))


def _usable(files: FilesView, path: PurePosixPath, mounted: NodeMounts) -> tuple[DeviceRule, ...]:
    return _granted(files, path) if path.name == DEVICES_LIST else tuple(_mounted_gpus(files, path, mounted))


def _told(specifications: Specifications, unit: str, group: PurePosixPath) -> tuple[DeviceRule, ...]:
    """Return what the runtime of a container was told that it may use."""
    try:
        return tuple(rule for rule in specifications.devices(unit) if rule != _CONSOLE)
    except (LookupError, ValueError, StepFailed) as error:
        if _process(specifications.files, group) is None:  # it has ended
            return ()
        raise StepFailed(
            f"cannot tell which devices {unit} may use: {error}", reason=Reason.DEVICES_WOULD_BE_LOST
        ) from error


def _label(inventory: Inventory, unit: str) -> str:
    return next((each.label for each in inventory.containers if unit.endswith(f"{each.id}.scope")), unit)


def _granted(files: FilesView, path: PurePosixPath) -> tuple[DeviceRule, ...]:
    try:
        return rules_of((files.read(path) or b"").decode(errors="replace"))
    except ValueError as error:
        raise StepFailed(f"cannot read {path}: {error}") from error


def _mounted_gpus(files: FilesView, group: PurePosixPath, mounted: NodeMounts) -> Iterator[DeviceRule]:
    """Yield the GPUs that are mounted for a process of a cgroup, each to be read and written."""
    if (process := _process(files, group)) is None:
        return
    table, trusted = b"", False
    with suppress(StepFailed):  # it ends while it is read, or hides its own devices by more mounts than fit
        trusted = _users(files, process) == _users(files, INIT)
        table = files.read(PurePosixPath(f"/proc/{process}/mountinfo"), limit=LARGEST_MOUNT_TABLE) or b""
    gpus = (
        minor
        for device, minor, kind in _GPU.findall(table)
        if device not in mounted.volumes and (trusted or kind != b"tmpfs" or device in mounted.devices)
    )
    for found in sorted({*gpus}):
        yield DeviceRule("c", NVIDIA, number(found.decode()), frozenset("rw"))


def _users(files: FilesView, process: int) -> str | None:
    """Return the user namespace of a process."""
    return files.link(PurePosixPath(f"/proc/{process}/ns/user"))


def _process(files: FilesView, group: PurePosixPath) -> int | None:
    """Return a process of a container's cgroup, or of a usual one below it: a container may make any number of them."""
    return next((pid for below in BELOW for pid in _members(files, group / below / MEMBERS)), None)


def _members(files: FilesView, path: PurePosixPath) -> list[int]:
    try:
        listed = words((files.read(path) or b"").decode(errors="replace"))
        return [pid for pid in map(number, listed) if pid is not None]
    except StepFailed:  # it ends while it is read, or is threaded
        return []


def _names(files: FilesView, services: ServicesView, known: Mapping[str, UnitDevices]) -> DeviceNames:
    paths = {words(each)[0] for unit in known.values() for each in unit.allowed if each.startswith("/dev/")}
    return DeviceNames(
        systemd=services.version(),
        majors=(files.read(MAJORS) or b"").decode(errors="replace"),
        present=frozenset(path for path in paths if files.entry(PurePosixPath(path)) is not None),
    )
