"""Gather which devices running containers may use, and which of them a ``daemon-reload`` takes. Changes nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.checks.facts import NodeFacts, PodCgroups
from nodeupgrade.node.host.device_rules import DeviceNames, DeviceRule, UnitDevices, is_common, lost_by_reload, rules_of
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import mounts
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.node import HostView
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.text import number, words

MAJORS = PurePosixPath("/proc/devices")
NVIDIA = 195
"""The major number of NVIDIA's GPUs."""
_GPU = re.compile(r"/dev/nvidia([0-9]{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAccess:
    """The devices of running containers, as the kernel writes them: ``c 195:0 rw``."""

    fragile: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # those that systemd does not know of, by label
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the others, by path of the kernel's list


class Scope(NamedTuple):
    """The cgroup of a running container, as systemd manages it."""

    container: ContainerInstance
    unit: str
    path: PurePosixPath | None  # of the kernel's list of its devices; None on cgroup v2, where there is none
    rules: tuple[DeviceRule, ...]  # what it may use; on cgroup v2, the GPUs that are mounted in it


def device_access(host: HostView, table: str, facts: NodeFacts, cgroups: PodCgroups | None) -> DeviceAccess:
    """Return the devices of running containers; none where systemd does not manage cgroups.

    Cgroup v1 says what a container may use. On cgroup v2 no file does, so GPUs count that are mounted in a container,
    as the legacy hook of NVIDIA's container toolkit does.

    Raises:
        StepFailed: something cannot be read.
    """
    if facts.readiness.cgroup_driver != "systemd" or cgroups is None:
        return DeviceAccess()
    points = (mount.point for mount in mounts(table) if mount.kind == "cgroup" and "devices" in mount.options)
    scopes = [scope for scope in _scopes(host.files, facts, cgroups, next(points, None)) if scope.rules]
    known = host.services.devices({scope.unit for scope in scopes})
    names = _names(host, known)
    lost = [(scope, lost_by_reload(scope.rules, known[scope.unit], names)) for scope in scopes]
    kept = {
        str(scope.path): tuple(str(rule) for rule in scope.rules if rule not in gone and not is_common(rule))
        for scope, gone in lost
        if scope.path is not None
    }
    return DeviceAccess(
        fragile={scope.container.label: tuple(map(str, gone)) for scope, gone in lost if gone},
        kept={path: rules for path, rules in kept.items() if rules},
    )


def keeping(cgroups: PodCgroups, devices: DeviceAccess) -> PodCgroups:
    """Return the cgroups of pods with the devices that a reload has to leave."""
    return replace(cgroups, complete=replace(cgroups.complete, devices=devices.kept))


def _scopes(
    files: FilesView, facts: NodeFacts, cgroups: PodCgroups, hierarchy: PurePosixPath | None
) -> Iterator[Scope]:
    for container in facts.inventory.containers:
        if (process := container.process) is None or (unit := _unit(files, container, process)) is None:
            continue
        if hierarchy is None:
            yield Scope(container, unit, None, tuple(_mounted_gpus(files, process)))
        elif (place := cgroups.complete.places.get(container.pod.uid)) is not None:
            path = hierarchy / place / unit / "devices.list"
            yield Scope(container, unit, path, _granted(files, path))


def _unit(files: FilesView, container: ContainerInstance, process: Process) -> str | None:
    """Return the scope that a container's process is in; there may be cgroups of its own below."""
    shown = (files.read(PurePosixPath(f"/proc/{process.pid}/cgroup")) or b"").decode(errors="replace")
    found = re.search(rf"/([A-Za-z0-9_.-]*{re.escape(container.id)}\.scope)(?:/|$)", shown, re.MULTILINE)
    return None if found is None else found[1]


def _granted(files: FilesView, path: PurePosixPath) -> tuple[DeviceRule, ...]:
    try:
        return rules_of((files.read(path) or b"").decode(errors="replace"))
    except ValueError as error:
        raise StepFailed(f"cannot read {path}: {error}") from error


def _mounted_gpus(files: FilesView, process: Process) -> Iterator[DeviceRule]:
    """Yield the GPUs that are mounted for a process, each to be read and written."""
    table = (files.read(PurePosixPath(f"/proc/{process.pid}/mountinfo")) or b"").decode(errors="replace")
    for mount in mounts(table):
        if found := _GPU.fullmatch(str(mount.point)):
            yield DeviceRule("c", NVIDIA, number(found[1]), frozenset("rw"))


def _names(host: HostView, known: Mapping[str, UnitDevices]) -> DeviceNames:
    paths = {words(each)[0] for unit in known.values() for each in unit.allowed if each.startswith("/dev/")}
    return DeviceNames(
        systemd=host.services.version(),
        majors=(host.files.read(MAJORS) or b"").decode(errors="replace"),
        present=frozenset(path for path in paths if host.files.entry(PurePosixPath(path)) is not None),
    )
