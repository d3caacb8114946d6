"""What is on a node, so that before an installation and after it can be compared."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.lab.host import cgroups
from e2e.lab.nodes.node import Node

NOT_COMPARED = {
    "dev": "made anew at each boot",
    "opt/kubelet": "where tests put kubelets",
    "proc": "of the kernel",
    "sys": "of the kernel; cgroups are compared on their own",
    "var/lib/containerd": "the runtime's images and containers",
    "var/lib/kubelet": "the kubelet's own state",
    "var/lib/systemd": "the state of systemd's timers and random seed",
    "var/log": "logs",
    "run/cni-ipam": "the address that the network plugin gave out last",
    "run/containerd": "sockets and states of the runtime",
    "run/log": "logs",
    "run/systemd": "states of units, which are compared on their own",
    "run/udev": "of the kernel's devices",
}
"""Directories below a node's root to which it writes all the time; what is left there is looked for by name."""
_READ = 1 << 22
"""Files up to so many bytes are compared by content, larger ones by size and time."""

Traces = Mapping[str, str]


def traces(node: Node) -> Traces:
    """Return what is there, by its name: files, units, mounts, cgroups, and the names of processes."""
    found = {f"file /{name}": what for name, what in _files(node.root)}
    found |= {f"unit {name}": "" for name in _units(node)}
    found |= {f"mount {name}": "" for name in _mounts(node)}
    found |= {f"cgroup {name}": "" for name in _cgroups(node)}
    return found | {f"process {name}": "" for name in _processes(node)}


PASSING = ("cgroup ", "mount ", "process ")
"""What comes and goes with pods and their probes: that one is gone again says nothing."""


def differences(before: Traces, after: Traces) -> dict[str, str]:
    """Return what is not as it was, by its name."""
    kept = {name for name in before if not name.startswith(PASSING)}
    names = sorted(name for name in {*kept, *after} if before.get(name) != after.get(name))
    return {name: f"{before.get(name, 'was not there')} → {after.get(name, 'is gone')}" for name in names}


def _files(root: Path) -> Iterator[tuple[str, str]]:
    for directory, names, plain in os.walk(root):
        place = Path(directory).relative_to(root)
        names[:] = [name for name in names if str(place / name) not in NOT_COMPARED]
        for name in (*names, *plain):
            try:
                yield str(place / name), _described(Path(directory) / name)
            except FileNotFoundError:
                continue


def _described(path: Path) -> str:
    seen = path.lstat()
    owner = f"{stat.filemode(seen.st_mode)} {seen.st_uid}:{seen.st_gid}"
    if stat.S_ISLNK(seen.st_mode):
        return f"→ {path.readlink()}"
    if not stat.S_ISREG(seen.st_mode):
        return owner
    if seen.st_size == 0:  # also a network namespace, which cannot be read
        return owner
    if seen.st_size > _READ:
        return f"{owner} {seen.st_size} bytes of {seen.st_mtime_ns}"
    return f"{owner} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def _units(node: Node) -> Iterator[str]:
    """Yield units that are installed, run or have failed; systemd also knows others, for as long as it pleases."""
    for listing in (("list-units", "--state=active,failed"), ("list-unit-files",)):
        shown = node.exec("systemctl", *listing, "--plain", "--no-legend").stdout
        names = (line.split()[0] for line in shown.splitlines() if line.split())
        yield from (name for name in names if not name.endswith((".mount", ".device")))  # mounts are listed, too


def _mounts(node: Node) -> Iterator[str]:
    for line in Path(f"/proc/{node.pid}/mountinfo").read_text().splitlines():
        yield line.split(" ")[4]


def _cgroups(node: Node) -> Iterator[str]:
    for hierarchy in cgroups.hierarchies():
        group = hierarchy.mount / node.cgroup
        for directory, names, _ in os.walk(group):
            found = (f"{hierarchy.mount.name}: {(Path(directory) / name).relative_to(group)}" for name in names)
            yield from (name for name in found if not name.endswith(("/burstable", "/besteffort")))  # for all such pods


def _processes(node: Node) -> Iterator[str]:
    for entry in (node.root / "proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "comm").read_text().strip()
            except (FileNotFoundError, ProcessLookupError):
                continue
