"""The lab's cgroups, in every hierarchy of the host (version 1, hybrid or unified)."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.process import PATIENCE

_ENTER = Path(__file__).with_name("enter.sh")
_V1_FLAGS = {"rw", "ro", "clone_children", "xattr", "cpuset_v2_mode", "noprefix"}


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted cgroup hierarchy of the host."""

    mount: Path  # its mount point
    options: str  # the options for mounting it again (``cpu,cpuacct``, ``none,name=systemd``); empty for version 2


def parse_hierarchies(mountinfo: str) -> tuple[Hierarchy, ...]:
    """Parse the cgroup mounts in the text of ``/proc/self/mountinfo``."""
    found: dict[str, Hierarchy] = {}
    for line in mountinfo.splitlines():
        place, _, rest = line.partition(" - ")
        kind, _, super_options = rest.split(" ", 2)
        mount = Path(place.split(" ")[4])
        if kind == "cgroup2":
            found.setdefault("", Hierarchy(mount, ""))
        elif kind == "cgroup":
            words = [word for word in super_options.split(",") if word not in _V1_FLAGS and "_agent=" not in word]
            options = ",".join(["none", *words] if words[0].startswith("name=") else words)
            found.setdefault(options, Hierarchy(mount, options))
    return tuple(found.values())


def hierarchies() -> tuple[Hierarchy, ...]:
    """Return the host's hierarchies.

    Raises:
        LabError: if there is none.
    """
    found = parse_hierarchies(Path("/proc/self/mountinfo").read_text())
    if not found:
        raise LabError("cannot make cgroups because none are mounted below /sys/fs/cgroup; mount cgroup2 there")
    return found


def create(group: str) -> list[Path]:
    """Create ``group`` (a relative path) in every hierarchy; return the files through which a process joins them."""
    return [_create_in(hierarchy, group) / "cgroup.procs" for hierarchy in hierarchies()]


_WEIGHTS = {"cpu.shares": "4096", "cpu.weight": "400"}
"""Four times the default, of versions 1 and 2."""


def _weigh(place: Path) -> None:
    """Let the group of all labs, which is that of many processes, count as several sessions of tests do."""
    for name, weight in _WEIGHTS.items():
        if (file := place / name).exists():
            file.write_text(weight)


def entering(doors: Iterable[Path]) -> list[str]:
    """Return the beginning of a command line that joins cgroups before it executes the rest.

    Args:
        doors: the files through which a process joins them, as ``create`` returns them.
    """
    return ["sh", str(_ENTER), *map(str, doors), "--"]


def _create_in(hierarchy: Hierarchy, group: str) -> Path:
    for _ in range(5):
        place = hierarchy.mount
        try:
            for level in Path(group).parts:
                _delegate(hierarchy, place)
                place /= level
                place.mkdir(exist_ok=True)
                _inherit_cpuset(hierarchy, place)
                if place.parent == hierarchy.mount:
                    _weigh(place)
        except FileNotFoundError:  # another lab has just removed the empty group that all labs share
            continue
        return place
    raise LabError(f"cannot make cgroup {group} in {hierarchy.mount} because its parent keeps vanishing")


def _delegate(hierarchy: Hierarchy, place: Path) -> None:
    """On version 2, delegate all controllers of ``place`` to its children."""
    if not hierarchy.options:
        for controller in (place / "cgroup.controllers").read_text().split():
            try:
                (place / "cgroup.subtree_control").write_text(f"+{controller}")
            except OSError:  # some cannot be delegated here (cpu with real-time tasks); kubelet names it if it matters
                continue


def _inherit_cpuset(hierarchy: Hierarchy, place: Path) -> None:
    """On version 1 a new cpuset is empty, and nothing may join it until it is filled."""
    if "cpuset" in hierarchy.options.split(","):
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (place / name).read_text().strip():
                (place / name).write_text((place.parent / name).read_text())


def members(group: str) -> set[int]:
    """Return the PIDs of all processes in ``group`` and below, in any hierarchy."""
    return {pid for place in _places(group) for pid in _procs(place)}


def destroy(group: str, *, timeout: float = 30) -> None:
    """Kill everything in ``group`` and remove it; does nothing if it does not exist.

    Raises:
        LabError: if something survives for ``timeout`` seconds (times PATIENCE).
    """
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        for pid in members(group):
            _kill(pid)
        _thaw(group)
        _remove(group)
        if not any(_places(group)):
            _remove_if_empty(hierarchy.mount / Path(group).parts[0] for hierarchy in hierarchies())
            return
        if time.monotonic() > deadline:
            left = sorted(members(group))
            raise LabError(f"cannot remove cgroup {group} because of processes {left}; end them and run `down` again")
        time.sleep(0.05)


def _places(group: str) -> Iterator[Path]:
    for hierarchy in hierarchies():
        top = hierarchy.mount / group
        if top.is_dir():
            yield from (Path(directory) for directory, _, _ in os.walk(top, topdown=False))


def _procs(place: Path) -> list[int]:
    try:
        return [int(pid) for pid in (place / "cgroup.procs").read_text().split() if pid != "0"]
    except OSError:  # removed meanwhile, or a threaded cgroup whose processes are listed above it
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return


def freeze(group: str, *, timeout: float = 5) -> None:
    """Freeze every process in ``group`` and below, for which ``timeout`` seconds (times PATIENCE) must be enough.

    ``destroy`` also kills frozen processes.
    """
    for hierarchy in hierarchies():
        for name, word, shown in (("freezer.state", "FROZEN", "FROZEN"), ("cgroup.freeze", "1", "1")):
            state = hierarchy.mount / group / name
            if state.exists():
                state.write_text(word)
                deadline = time.monotonic() + timeout * PATIENCE
                while state.read_text().strip() != shown and time.monotonic() < deadline:
                    time.sleep(0.005)


def _thaw(group: str) -> None:
    """Let frozen processes die: on version 1 not even SIGKILL reaches them. runc freezes while it changes limits."""
    for place in _places(group):
        state = place / "freezer.state"
        with contextlib.suppress(OSError):  # version 2 has none, or the group is gone meanwhile
            if state.read_text().strip() != "THAWED":
                state.write_text("THAWED")


def _remove(group: str) -> None:
    _remove_if_empty(_places(group))


def _remove_if_empty(places: Iterable[Path]) -> None:
    for place in places:
        try:
            place.rmdir()
        except OSError:  # not empty, or gone already
            continue
