"""Gather how the kubelet names the cgroups of its pods, and their state. Changes nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.kubelethash import QosClass, UnreadablePod, UnsupportedKubelet, qos_class
from nodeupgrade.node.checks.facts import NodeFacts, PodCgroups
from nodeupgrade.node.host import pod_cgroups as places
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import mounts as mounts_in
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import lines, number, trimmed, words

HIERARCHIES = PurePosixPath("/sys/fs/cgroup")
UNIFIED = HIERARCHIES
"""Where cgroup v2 is mounted, if all controllers are there."""
CGROUP_V2_MARK = UNIFIED / "cgroup.controllers"
# Names of a pod's cgroup with either driver. The agent's pod sees other pods' paths relative to its own, so the
# beginning may be missing; there may be a name before "kubepods" (cgroupRoot).
POD_SLICE = re.compile(r"(?:.*-)?kubepods-.*pod[0-9a-f_-]+\.slice")
POD_DIRECTORY = re.compile(r"pod[0-9a-f]{8}-[0-9a-f-]+|pod[0-9a-f]{32}")


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


def pod_cgroups(files: FilesView, table: str, facts: NodeFacts) -> PodCgroups | None:
    """Look at the cgroups of the running pods, as a starting kubelet does first.

    ``None`` if the kubelet has no cgroups for its pods, or no running pod shows how it names them.
    """
    settings, driver = facts.settings, facts.readiness.cgroup_driver
    if driver is None or not places.manages_cgroups(settings):
        return None
    base = places.all_pods(settings, driver)
    hierarchies = {} if facts.readiness.cgroup_v2 else dict(_hierarchies(table))
    memory = UNIFIED if facts.readiness.cgroup_v2 else hierarchies.get("memory", HIERARCHIES / "memory")
    if files.read(memory / base / ("cgroup.controllers" if facts.readiness.cgroup_v2 else "cgroup.procs")) is None:
        return PodCgroups(base=f"/{base}", exists=False)
    classes = ((pod.ref, _class(pod, facts)) for pod in facts.running_pods())
    pods = {ref: str(places.of_pod(settings, driver, ref.uid, qos)) for ref, qos in classes if qos is not None}
    expected = places.ExpectedCgroups(
        hierarchies={name: str(at) for name, at in hierarchies.items()},
        controllers=tuple(sorted(places.NEEDED & _words(files, UNIFIED / "cgroup.controllers"))),
        places={ref.uid: place for ref, place in pods.items()},
    )
    incomplete = find_incomplete(files, expected)
    limit, used = _memory(files, memory / base, unified=facts.readiness.cgroup_v2)
    ended = {uid for uid in incomplete if _has_ended(files, facts.inventory, uid)}
    return PodCgroups(
        base=f"/{base}",
        exists=True,
        incomplete={str(ref): incomplete[ref.uid] for ref in pods if ref.uid in incomplete},
        ended=frozenset(str(ref) for ref in pods if ref.uid in ended),
        complete=replace(expected, places={u: place for u, place in expected.places.items() if u not in incomplete}),
        limit=limit,
        used=used,
    )


def find_incomplete(files: FilesView, expected: places.ExpectedCgroups) -> dict[PodUid, tuple[str, ...]]:
    """Return what the cgroups of pods lack: controllers, or hierarchies. Pods that lack nothing are left out."""
    found: dict[PodUid, tuple[str, ...]] = {}
    for uid, place in expected.places.items():
        mounted = ((name, PurePosixPath(at)) for name, at in expected.hierarchies.items())
        missing = {name for name, at in mounted if files.read(at / place / "cgroup.procs") is None}
        if expected.controllers:
            missing |= {*expected.controllers} - _words(files, UNIFIED / place / "cgroup.controllers")
        if missing:
            found[uid] = tuple(sorted(missing))
    return found


def _has_ended(files: FilesView, inventory: Inventory, uid: PodUid) -> bool:
    """Report whether the runtime has named processes of a pod, and none of them is there any more."""
    processes = tuple(_processes(inventory, uid))
    return bool(processes) and not any(_is_there(files, process) for process in processes)


def _processes(inventory: Inventory, uid: PodUid) -> Iterator[Process]:
    """Yield the processes of a pod that the runtime has named."""
    sandboxes = (each.process for each in inventory.sandboxes if each.pod.uid == uid)
    containers = (each.process for each in inventory.containers if each.pod.uid == uid)
    yield from (process for process in (*sandboxes, *containers) if process is not None)


def _is_there(files: FilesView, process: Process) -> bool:
    return files.read(PurePosixPath(f"/proc/{process.pid}/stat")) is not None


def _hierarchies(table: str) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the hierarchies of cgroup v1 that a kubelet heeds, with their mount points."""
    for mount in mounts_in(table):
        if mount.kind == "cgroup" and mount.point.is_relative_to(HIERARCHIES):
            yield from ((name, mount.point) for name in sorted(places.NEEDED_V1 & mount.options))


def _class(pod: Pod, facts: NodeFacts) -> QosClass | None:
    try:
        return qos_class(pod.raw, facts.current or facts.target)
    except (UnreadablePod, UnsupportedKubelet):  # reported by pods_keep_their_cgroup and versions_are_known
        return None


def _memory(files: FilesView, group: PurePosixPath, *, unified: bool) -> tuple[int | None, int | None]:
    """Return the limit, and the usage without the file cache that the kernel can reclaim."""
    limit, usage, idle = (
        ("memory.max", "memory.current", "inactive_file")
        if unified
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    stat = (files.read(group / "memory.stat") or b"").decode(errors="replace")
    statistics: Mapping[str, str] = dict(line.split(" ", 1) for line in lines(stat) if " " in line)
    used, reclaimable = _number(files.read(group / usage)), _number(statistics.get(idle, "").encode())
    return _number(files.read(group / limit)), None if used is None else max(0, used - (reclaimable or 0))


def _number(data: bytes | None) -> int | None:
    return number(trimmed((data or b"").decode(errors="replace")))


def _words(files: FilesView, path: PurePosixPath) -> frozenset[str]:
    return frozenset(words((files.read(path) or b"").decode(errors="replace")))
