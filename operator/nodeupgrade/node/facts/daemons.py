"""Find the daemons that a unit has started and that end with it, such as one that serves a mount."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.node.facts.pod_cgroups import HIERARCHIES, UNIFIED
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.text import number, words

_INIT = "1"


def find_daemons(files: FilesView, unit: UnitStatus) -> Iterator[str]:
    """Yield the processes in the unit's cgroup that init has adopted, because their parent has ended."""
    if not unit.control_group:
        return
    group = unit.control_group.lstrip("/")
    lists = (files.read(hierarchy / group / "cgroup.procs") for hierarchy in (UNIFIED, HIERARCHIES / "systemd"))
    listed = words(next((content for content in lists if content), b"").decode(errors="replace"))
    for pid in (each for each in map(number, listed) if each is not None and each != unit.main_pid):
        name, parent = _name_and_parent(files, pid)
        if parent == _INIT:
            yield f"{name} ({pid})"


def _name_and_parent(files: FilesView, pid: int) -> tuple[str, str]:
    """Return name and parent of a process, from ``/proc/PID/stat``; both empty if it has ended."""
    text = (files.read(PurePosixPath(f"/proc/{pid}/stat")) or b"").decode(errors="replace")
    head, _, tail = text.rpartition(")")  # a name may itself contain parentheses
    fields = words(tail)
    return head.partition("(")[2], fields[1] if len(fields) > 1 else ""
