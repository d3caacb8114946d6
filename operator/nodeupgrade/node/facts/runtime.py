"""Gather how the runtime runs, and how its unit would start it. Changes nothing."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.facts.kubelet_start import environment_files, missing_environment_file, read_start, run_by
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import is_mount_point, is_read_only, mount_table
from nodeupgrade.node.host.systemd.through_env import without_env
from nodeupgrade.node.host.systemd.unit_start import UnitStart, unit_files
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import ReadOnlyNode
from nodeupgrade.node.runtimes.description import NextStart, RuntimeAsFound, RuntimeInfo, RuntimeKind, RuntimeSocket
from nodeupgrade.text import lines

SERVICE = re.compile(r"[^/]+\.service")


def examine_runtime(
    node: ReadOnlyNode, unit: UnitStatus, info: RuntimeInfo, kubelet: PurePosixPath | None = None
) -> tuple[RuntimeAsFound, UnitStart]:
    """Examine the running runtime, and ask the program on disk how it would start with its configuration."""
    named = without_env(unit, node.files.executable)
    process = info.process
    if process is not None and named != unit and process.words[:1] == (PurePosixPath(named.program).name,):
        process = replace(process, words=(named.program, *process.words[1:]))  # env passes the name as it was given
    following = node.runtime.next_start(named, process)
    program = PurePosixPath(following.program)
    found = RuntimeAsFound(
        name=node.runtime.kind.name,
        unproven=node.runtime.kind.unproven(info.version),
        unit=named,
        process=process,
        owner="" if info.process is None else _owner(node.files, info.process.pid),
        places=info.places,
        next=following,
        cgroup_driver=info.cgroup_driver,
        changed=_changed(node, unit, following),
        program=node.files.digest(program) if program.is_absolute() else None,
        missing=missing_environment_file(node.files, unit),
    )
    more = (*following.files, *run_by(node.files, unit, kubelet))
    how = read_start(node.files, unit, more, following.directories)
    return found, replace(how, program=str(program), digest=found.program)


def unit_of(node: ReadOnlyNode, info: RuntimeInfo) -> UnitStatus:
    """Return the unit that would be restarted.

    That is the kind's usual one, unless the process that answers is the main process of a unit of another name: the one
    that its cgroup names. A runtime that another program has started, as in k3s, is no main process.
    """
    usual = node.services.status(node.runtime.kind.unit)
    if info.process is None or not node.runtime.kind.other_units or usual.main_pid == info.process.pid:
        return usual
    owner = _owner(node.files, info.process.pid)
    if not owner:
        return usual
    unit = node.services.status(owner)
    is_main = unit.load_state == "loaded" and unit.running and unit.main_pid == info.process.pid
    return unit if is_main else usual


def find_socket(files: FilesView, kind: RuntimeKind, endpoint: str) -> RuntimeSocket:
    """Examine the socket that the kubelet connects to."""
    try:
        path, unknown = files.socket(PurePosixPath(endpoint)), ""
    except StepFailed as error:
        path, unknown = None, str(error)
    table = mount_table(files)
    return RuntimeSocket(
        endpoint=endpoint,
        path=None if path is None else str(path),
        fixed=path is not None and (is_read_only(table, path.parent) or files.immutable(path.parent)),
        mounted=path is not None and is_mount_point(table, path),
        kind=kind,
        unknown=unknown,
    )


def _changed(node: ReadOnlyNode, unit: UnitStatus, following: NextStart) -> tuple[str, ...]:
    """Return what a start reads and what was changed after the runtime was started.

    A drop-in or a configuration file that was removed is detected by its directory's time; directories in /run are
    left out, since they hold our own drop-ins too, and so is what the runtime itself made in one. The program itself is
    compared by its digest; only a starter, such as a script, is compared by time.
    """
    if not unit.main_pid:
        return ()
    started = node.kubelet.started(unit.main_pid)  # by the kernel: systemd's clock leaves out time spent suspended
    paths = [*following.files, *unit_files(unit), *environment_files(node.files, unit)]
    paths += [*following.directories, *_drop_in_directories(unit)]
    paths += [following.starter] if following.starter else []
    changed = node.files.changed
    paths += [
        str(path.parent)
        for path in map(PurePosixPath, following.files)
        if changed(path) is None and not _changed_by_runtime(node.files, path.parent, following)
    ]
    return tuple(path for path in dict.fromkeys(paths) if (changed(PurePosixPath(path)) or 0.0) > started)


def _changed_by_runtime(files: FilesView, directory: PurePosixPath, following: NextStart) -> bool:
    """Report whether the last change of a directory is that the runtime made another one in it.

    A new directory gets its time before its parent does, and keeps it until something is made in it in turn.
    """
    made = [files.changed(path) for path in map(PurePosixPath, following.makes) if path.parent == directory]
    return (files.changed(directory) or 0.0) <= max((time for time in made if time is not None), default=-1.0)


def _drop_in_directories(unit: UnitStatus) -> Iterable[str]:
    parents = (str(PurePosixPath(path).parent) for path in unit.drop_ins)
    return (path for path in parents if not path.startswith("/run/"))


def _owner(files: FilesView, pid: int) -> str:
    """Return the service that a process belongs to, according to its cgroup; empty if there is none."""
    data = files.read(PurePosixPath(f"/proc/{pid}/cgroup")) or b""
    of_systemd = [
        line
        for line in lines(data.decode(errors="replace"))
        if line.startswith(("0::", "1:name=systemd:")) or ":name=systemd:" in line
    ]
    found = [name for line in of_systemd for name in SERVICE.findall(line)]
    return found[0] if found else ""
