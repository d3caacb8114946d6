"""Gather how the next kubelet is started if files are exchanged together with it. Changes nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.node.checks.kubelet_start import Start, command
from nodeupgrade.node.facts.files_after import FilesAfter
from nodeupgrade.node.facts.kubelet_start import config_files, environment_files
from nodeupgrade.node.host.files.files import EntryKind, FileEntry, FilesView
from nodeupgrade.node.host.files.mounts import is_mount_point, is_read_only, mount_table
from nodeupgrade.node.host.systemd.environment_files import is_pattern
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.plan.exchanged_files import FileFound, NewFile, changes_of
from nodeupgrade.node.plan.exchanged_files import is_drop_in as is_drop_in_of_unit

LARGEST_DROP_IN = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWithFiles:
    """A start of a kubelet."""

    files: FilesView  # the files that it reads
    words: tuple[str, ...]  # its arguments, without the program
    found: tuple[FileFound, ...] = ()  # the paths of the files that are to be exchanged, as found
    changed: Mapping[str, bytes] = field(default_factory=dict)  # the new content of those that change, by path
    sets: Mapping[str, str] = field(default_factory=dict)  # variables of its environment that are set anew
    drops: frozenset[str] = frozenset()  # names of variables that are no longer set

    @property
    def configuration(self) -> list[PurePosixPath]:
        """Return the configuration files that it reads."""
        return config_files(self.files, self.words)

    def environment(self, running: Mapping[str, str]) -> dict[str, str]:
        """Return its environment, given that of the running kubelet."""
        kept = {name: value for name, value in running.items() if name not in self.drops}
        return kept | dict(self.sets)


def find_files(files: FilesView, new: Iterable[NewFile]) -> tuple[FileFound, ...]:
    """Look at the paths that new files are for.

    Raises:
        StepFailed: one cannot be looked at.
    """
    mountinfo = mount_table(files)
    return tuple(_found(files, each, mountinfo) for each in new)


def _found(files: FilesView, new: NewFile, mountinfo: str) -> FileFound:
    path = PurePosixPath(new.path)
    entry = files.entry(path)
    usable = entry is not None and entry.kind is EntryKind.FILE
    return FileFound(
        new=new,
        real=files.follow(path.parent) / path.name,
        entry=entry,
        before=files.digest(path) if usable else None,
        directory=_is_directory(files.entry(path.parent)),
        mounted=is_mount_point(mountinfo, path) or is_read_only(mountinfo, path.parent),
        immutable=files.immutable(path.parent) or (usable and files.immutable(path)),
        content=_drop_in(files, path) if usable and is_drop_in_of_unit(new.path) else None,
    )


def with_files(files: FilesView, words: tuple[str, ...], new: tuple[NewFile, ...]) -> StartWithFiles:
    """Return a start with these arguments, and with new files.

    Raises:
        StepFailed: a path cannot be looked at.
    """
    found = find_files(files, new)
    changed = {each.new.path: each.new.content for each in changes_of(found)}
    return StartWithFiles(files=FilesAfter(files, changed), words=words, found=found, changed=changed)


def next_start(files: FilesView, words: tuple[str, ...], new: tuple[NewFile, ...], start: Start) -> StartWithFiles:
    """Return the start of a kubelet with new files, given its arguments otherwise and how the running one was started.

    Raises:
        Refused: an environment file is among them, and it is unknown how the kubelet would be started with it.
        StepFailed: a path cannot be looked at.
    """
    then = with_files(files, words, new)
    after = FilesAfter(files, then.changed)
    named = environment_files(after, start.unit)  # a pattern also stands for a file that is not there yet
    environment = {path: content for path in named if (content := after.new(PurePosixPath(path))) is not None}
    if not environment:
        return then
    before = command(start)
    with_new = command(replace(start, environment_files={**start.environment_files, **environment}))
    if with_new.words is None or with_new.environment is None:
        raise Refused(
            Reason.SETTING_NOT_CHANGEABLE,
            f"it is unknown with which command line {start.unit.name} would start the kubelet with the new "
            f"{', '.join(environment)}; write it as plain NAME=value lines, for a unit that starts the kubelet itself",
        )
    gone = (before.environment or {}).keys() - with_new.environment.keys()
    return replace(then, words=with_new.words[1:], sets=dict(with_new.environment), drops=frozenset(gone))


def other_names(files: FilesView, start: UnitStart, changed: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the other names under which a start reads files that change, by path: symbolic links lead from there.

    Raises:
        StepFailed: a path cannot be followed.
    """
    found = {path: list[str]() for path in changed}
    for name in _names(start) if found else ():
        path = str(files.follow(PurePosixPath(name)))
        if path in found and name != path:
            found[path].append(name)
    return {path: tuple(names) for path, names in found.items() if names}


def _names(start: UnitStart) -> Iterator[str]:
    for path, content in start.files.items():
        if path.endswith("/") or is_pattern(path):
            yield from (str(PurePosixPath(path) / name) for name in content.split(" ") if name)
        else:
            yield path


def _is_directory(entry: FileEntry | None) -> bool:
    return entry is not None and entry.kind in {EntryKind.DIRECTORY, EntryKind.LINK}


def _drop_in(files: FilesView, path: PurePosixPath) -> bytes | None:
    if (files.size(path) or 0) > LARGEST_DROP_IN:
        raise StepFailed(f"{path} is too large for a drop-in")
    return files.read(path)
