"""The memory that a container uses, from its control group: the runtime may be restarting."""

import os
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.text import lines, number, trimmed

CGROUPS = Path("/sys/fs/cgroup")


def memory_in_use(pid: int, name: str, proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> int | None:
    """Return the working set in bytes: what is in use, without the file cache that the kernel drops first.

    Args:
        pid: a process of the container, which may be in a group below the container's.
        name: id of the container, which is part of its group's name.
        proc: mount point of the procfs.
        cgroups: mount point of the control groups.

    Returns:
        ``None`` if it is unknown.
    """
    try:
        groups = [line.split(":", 2) for line in lines(os.fsdecode(read_file(proc / str(pid) / "cgroup")))]
        paths = {controller: path for _, controllers, path in groups for controller in controllers.split(",")}
        if "memory" in paths:
            group = _group(cgroups / "memory", paths["memory"], name)
            return _working_set(group, "memory.usage_in_bytes", "total_inactive_file")
        return _working_set(_group(cgroups, paths[""], name), "memory.current", "inactive_file")
    except (OSError, ValueError, KeyError):
        return None


def _group(root: Path, path: str, name: str) -> Path:
    """Return the container's own group: the highest one whose name contains the container's."""
    relative = PurePosixPath(path).relative_to("/")
    for group in reversed((relative, *relative.parents)):
        if name in group.name:
            return root / group
    raise ValueError(f"{path} is in no control group of {name}")


def _working_set(group: Path, usage: str, cache: str) -> int:
    statistics = dict(line.split(" ") for line in lines(read_file(group / "memory.stat").decode()))
    return max(0, _number(read_file(group / usage).decode()) - _number(statistics.get(cache, "0")))


def _number(text: str) -> int:
    if (found := number(trimmed(text))) is None:
        raise ValueError(f"{text[:80]!r} is not a number")
    return found
