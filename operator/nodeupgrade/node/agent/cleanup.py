"""Removes from a node what runs have left on it, before uninstalling: ``python -m nodeupgrade.node.agent.cleanup``.

Refused while anything may still need it. What a kubelet or a pod depends on stays, and is named.
"""

import errno
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nodeupgrade.api.printable import printable
from nodeupgrade.api.values import RunId
from nodeupgrade.errors import Inconsistent, StepFailed
from nodeupgrade.node.executor.units import UNITS
from nodeupgrade.node.facts.gather import UNIT_DIRECTORY
from nodeupgrade.node.host.files.files import LARGEST_MOUNT_TABLE, Files, FilesView
from nodeupgrade.node.host.files.mounts import mounts, place_of
from nodeupgrade.node.host.packages.dpkg_database import HELD, STATUS, record_of
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.own_directories import PROGRAM_PLACES, RUNS, STATE_DIRECTORY
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.wiring import MountedHost, host_from_pod, runs_from_pod

AGENT_MODULE = "nodeupgrade.node.agent"
_UNIT_DIRECTORIES = (UNIT_DIRECTORY, PurePosixPath("/run/systemd/system"))


class StillNeededError(Exception):
    """Something on the node may still need what runs have left; the message says what."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What runs have left on a node."""

    removable: tuple[PurePosixPath, ...]  # old kubelets, for going back
    directories: tuple[PurePosixPath, ...]  # directories of drop-ins; removed if they are empty
    staying: tuple[str, ...]  # what stays in place, and why


def find_leftovers(runs: AgentRuns, files: FilesView) -> Leftovers:
    """Find what can be removed, and what stays.

    Raises:
        StillNeededError: a run is not over, its units are still there, or its journal or plan cannot be read.
    """
    units = [path for directory in _UNIT_DIRECTORIES for path in files.list(directory)]
    units = [path for path in units if path.name.startswith("nodeupgrade-")]
    if units:
        raise StillNeededError(
            f"{units[0]} is still there; wait until the run on this node is over. A run that is over leaves its units "
            "only where a reload of systemd would take a device from a container: then remove them by hand"
        )
    try:
        plans = [_ended(runs, run) for run in runs.begun_runs()]
        for run in runs.plans_not_begun():
            runs.discard(run)
    except (Inconsistent, StepFailed) as error:
        raise StillNeededError(f"cannot determine what earlier runs left on this node: {error}") from error
    names = {path for plan in plans for path in (plan.swap.backup, *plan.temporary(keeping_old=False))}
    present = sorted(path for path in map(PurePosixPath, names) if files.stamp(path) is not None)
    staying = sorted({line for plan in plans for line in _staying(plan)})
    there = (f"{path}: {what}" for path, what in staying if files.stamp(PurePosixPath(path)) is not None)
    drop_ins = sorted({UNIT_DIRECTORY / f"{unit}.d" for plan in plans for unit in (plan.swap.unit, plan.runtime_unit)})
    return Leftovers(tuple(present), tuple(drop_ins), (*there, *_held(plans, files)))


def _ended(runs: AgentRuns, run: RunId) -> RunPlan:
    finished = runs.read_journal(run).finished
    if finished is None:
        raise Inconsistent(f"run {run} is not over")
    if (finished.payload or {}).get("outcome") == Outcome.DEGRADED:
        raise Inconsistent(f"run {run} needs a person; when the node is repaired, remove {RUNS / run}")
    plan = runs.read_plan(run)
    if plan is None:
        raise Inconsistent(f"run {run} has no plan")
    return plan


def _staying(plan: RunPlan) -> Iterator[tuple[str, str]]:
    if plan.swap.arguments is not None:
        yield plan.swap.arguments.path, "the kubelet is started with it"
    yield from ((file.path, "it was replaced together with the kubelet") for file in plan.exchanged)
    yield from ((pin.path, "metadata.uid is that of the running pod") for pin in plan.pins)


def _held(plans: Iterable[RunPlan], files: FilesView) -> Iterator[str]:
    """Yield the packages that a run has held and that still are held."""
    ours = {plan.hold for plan in plans if plan.hold is not None and not plan.hold.held}
    for name, architecture in sorted({(package.name, package.architecture) for package in ours}):
        found = record_of(files.read(STATUS) or b"", name, architecture)
        if found is not None and found.selection == HELD:
            yield f"package {name}: it is held; release it with apt-mark unhold {name}"


def remove(leftovers: Leftovers, files: Files, root: Path) -> None:
    """Remove what can be removed; the runs' plans come last, so that an interrupted cleanup can be repeated.

    Raises:
        StepFailed: something cannot be removed.
    """
    for path in leftovers.removable:
        files.remove(path)
    try:
        for directory in leftovers.directories:
            _remove_if_empty(root / directory.relative_to("/"))
        for place in (root / each.relative_to("/") for each in reversed(PROGRAM_PLACES)):
            if place.exists():
                shutil.rmtree(place)
    except OSError as error:
        raise StepFailed(f"cannot remove what earlier runs left: {error}") from error


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise


def require_nobody_at_work(host: MountedHost) -> None:
    """Require that no agent runs on the node, and no unit of a run.

    Anybody may give a process an agent's arguments, or gigabytes of them, which is why others' are not even read. But
    only an agent, and who is root on the node already, has the node's root directory where this program has it; and
    only root can make a unit of systemd.

    Raises:
        StillNeededError: one does.
        StepFailed: systemd does not answer.
    """
    if active := [unit for unit in UNITS if not host.services.status(unit).down]:
        raise StillNeededError(f"{active[0]} is active; wait until the run on this node is over")
    if any(AGENT_MODULE in (host.processes.arguments(pid) or ()) for pid in _with_node(host)):
        raise StillNeededError("an agent runs on this node; delete its NodeUpgrade, or wait until the run is over")


def _with_node(host: MountedHost) -> Iterator[int]:
    """Yield the processes that have the node's root directory, and no link, where it is mounted here.

    Only their mount tables are read: what else a pod has mounted there, such as a volume of NFS, may never answer. An
    agent is in the node's PID namespace and has a mount table of its own, about as large as the node's.
    """
    processes, place = host.processes, PurePosixPath("/", host.root.name)
    table = processes.text(INIT, "mountinfo")
    if (node := place_of(table, PurePosixPath("/"))) is None:
        raise StepFailed("cannot read what is mounted on the node")
    limit, has = max(LARGEST_MOUNT_TABLE, 2 * len(table)), dict[str | None, bool]()
    init = [_namespace(processes, INIT, kind) for kind in ("pid", "mnt")]
    for pid in processes.pids():
        own, mounted = (_namespace(processes, pid, kind) for kind in ("pid", "mnt"))
        if own != init[0] or mounted == init[1]:
            continue
        if mounted not in has:
            own_table = mounts(processes.text(pid, "mountinfo", limit=limit))
            has[mounted] = any((each.point, each.source) == (place, node) for each in own_table)
        if has[mounted]:
            yield pid


def _namespace(processes: ProcessTable, pid: int, kind: str) -> str | None:
    """Return the name of a namespace of a process; ``None`` if it has ended."""
    try:
        return str((processes.root / str(pid) / "ns" / kind).readlink())
    except OSError:
        return None


def main() -> int:
    """Clean the node that is mounted at ``/host`` and print what was done; 1 if it is refused or fails."""
    host = host_from_pod(Path("/host"))
    try:
        require_nobody_at_work(host)
        found = find_leftovers(runs_from_pod(host.root), host.files)
        remove(found, host.files, host.root)
    except (StillNeededError, StepFailed) as error:
        print(printable(f"error: this node is not clean: {error}"), file=sys.stderr)
        return 1
    for path in (*found.removable, STATE_DIRECTORY):
        print(printable(f"removed {path}"))
    for line in found.staying:
        print(printable(f"kept {line}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
