"""Gather how the runtime runs, and how its unit would start it. Changes nothing."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.node.checks.drift import Start, command
from nodeupgrade.domain.node.exchanged_files import EntryKind, FileEntry, FileFound, NewFile, changes_of, is_drop_in
from nodeupgrade.domain.node.mounts import is_mount_point, is_read_only
from nodeupgrade.domain.node.runtime import NextStart, RuntimeAsFound, RuntimeInfo, RuntimeKind, RuntimeSocket
from nodeupgrade.domain.node.systemd_units import UnitStart, UnitStatus, unit_files
from nodeupgrade.engine.node.facts.kubelet_start import FilesAfter, config_files, environment_files, read_start, run_by
from nodeupgrade.engine.node.facts.own_places import mounts
from nodeupgrade.engine.node.node import ReadOnlyNode
from nodeupgrade.ports.files import FilesView

SERVICE = re.compile(r"[^/]+\.service")


def find(
    node: ReadOnlyNode, unit: UnitStatus, info: RuntimeInfo, kubelet: PurePosixPath | None = None
) -> tuple[RuntimeAsFound, UnitStart]:
    """Examine the running runtime, and ask the program on disk how it would start with its configuration."""
    following = node.runtime.next_start(unit, info.process)
    program = PurePosixPath(following.program)
    found = RuntimeAsFound(
        name=node.runtime.kind.name,
        unproven=node.runtime.kind.unproven(info.version),
        unit=unit,
        process=info.process,
        owner="" if info.process is None else _owner(node.files, info.process.pid),
        places=info.places,
        next=following,
        changed=_changed(node, unit, following),
        program=node.files.digest(program) if program.is_absolute() else None,
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
    table = mounts(files)
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
    lines = data.decode(errors="replace").splitlines()
    of_systemd = [line for line in lines if line.startswith(("0::", "1:name=systemd:")) or ":name=systemd:" in line]
    found = [name for line in of_systemd for name in SERVICE.findall(line)]
    return found[0] if found else ""


# What the next kubelet is started with, where files are exchanged together with it. Changes nothing.

LARGEST_DROP_IN = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWithFiles:
    """A start of a kubelet."""

    files: FilesView  # the files that it reads
    words: tuple[str, ...]  # its arguments, without the program
    found: tuple[FileFound, ...] = ()  # the paths of the files that are to be exchanged, as found
    changed: Mapping[str, bytes] = field(default_factory=dict)  # the new content of those that change, by path
    sets: Mapping[str, str] = field(default_factory=dict)  # variables of its environment that are set anew
    drops: frozenset[str] = frozenset()  # names of variables that are set no more

    @property
    def configuration(self) -> list[PurePosixPath]:
        """Return the configuration files that it reads."""
        return config_files(self.files, self.words)

    def environment(self, running: Mapping[str, str]) -> dict[str, str]:
        """Return its environment, given that of the running kubelet."""
        kept = {name: value for name, value in running.items() if name not in self.drops}
        return kept | dict(self.sets)


def look(files: FilesView, new: Iterable[NewFile]) -> tuple[FileFound, ...]:
    """Look at the paths that new files are for.

    Raises:
        StepFailed: one cannot be looked at.
    """
    mountinfo = mounts(files)
    return tuple(_found(files, each, mountinfo) for each in new)


def _found(files: FilesView, new: NewFile, mountinfo: str) -> FileFound:
    path = PurePosixPath(new.path)
    entry = files.entry(path)
    usable = entry is not None and entry.kind is EntryKind.FILE
    return FileFound(
        new=new,
        entry=entry,
        before=files.digest(path) if usable else None,
        directory=_is_directory(files.entry(path.parent)),
        mounted=is_mount_point(mountinfo, path) or is_read_only(mountinfo, path.parent),
        immutable=files.immutable(path.parent) or (usable and files.immutable(path)),
        content=_drop_in(files, path) if usable and is_drop_in(new.path) else None,
    )


def with_files(files: FilesView, words: tuple[str, ...], new: tuple[NewFile, ...]) -> StartWithFiles:
    """Return a start with these arguments, and with new files.

    Raises:
        StepFailed: a path cannot be looked at.
    """
    found = look(files, new)
    changed = {each.new.path: each.new.content for each in changes_of(found)}
    return StartWithFiles(files=FilesAfter(files, changed), words=words, found=found, changed=changed)


def next_start(files: FilesView, words: tuple[str, ...], new: tuple[NewFile, ...], start: Start) -> StartWithFiles:
    """Return the start of a kubelet with new files, given its arguments otherwise and how the running one was started.

    Raises:
        Refused: an environment file is among them, and it cannot be told how the kubelet would be started with it.
        StepFailed: a path cannot be looked at.
    """
    then = with_files(files, words, new)
    environment = {path: then.changed[path] for path in start.environment_files if path in then.changed}
    if not environment:
        return then
    before = command(start)
    after = command(replace(start, environment_files={**start.environment_files, **environment}))
    if after.words is None or after.environment is None:
        raise Refused(
            Reason.SETTING_NOT_CHANGEABLE,
            f"nobody can tell with which command line {start.unit.name} would start the kubelet with the new "
            f"{', '.join(environment)}; write it as plain NAME=value lines, for a unit that starts the kubelet itself",
        )
    gone = (before.environment or {}).keys() - after.environment.keys()
    return replace(then, words=after.words[1:], sets=dict(after.environment), drops=frozenset(gone))


def _is_directory(entry: FileEntry | None) -> bool:
    return entry is not None and entry.kind in {EntryKind.DIRECTORY, EntryKind.LINK}


def _drop_in(files: FilesView, path: PurePosixPath) -> bytes | None:
    if (files.size(path) or 0) > LARGEST_DROP_IN:
        raise StepFailed(f"{path} is too large for a drop-in")
    return files.read(path)
