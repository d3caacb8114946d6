"""What the next kubelet is started with, where files are exchanged together with it. Changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.node.checks.drift import Command, Start, command
from nodeupgrade.domain.node.files import EntryKind, FileEntry, FileFound, NewFile, changes_of, is_drop_in
from nodeupgrade.domain.node.host.mounts import is_mount_point, is_read_only
from nodeupgrade.engine.node.facts.files_after import FilesAfter
from nodeupgrade.engine.node.facts.readiness import mounts
from nodeupgrade.ports.node.files import FilesView

LARGEST_DROP_IN = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWithFiles:
    """A start of a kubelet.

    Attributes:
        files: the files that it reads.
        words: its arguments, without the program.
        found: the paths of the files that are to be exchanged, as found.
        sets: variables of its environment that are set anew.
        drops: names of variables that are set no more.
    """

    files: FilesView
    words: tuple[str, ...]
    found: tuple[FileFound, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Return the paths of the files that change."""
        return tuple(each.new.path for each in changes_of(self.found))

    def content(self, path: str) -> bytes | None:
        """Return the new content of a file; ``None`` if it does not change."""
        return next((each.new.content for each in changes_of(self.found) if each.new.path == path), None)

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
    content = {each.new.path: each.new.content for each in changes_of(found)}
    return StartWithFiles(files=FilesAfter(files, content), words=words, found=found)


def next_start(files: FilesView, words: tuple[str, ...], new: tuple[NewFile, ...], start: Start) -> StartWithFiles:
    """Return the start of a kubelet with new files.

    Args:
        words: the arguments that it would be started with otherwise.
        start: how the running kubelet was started.

    Raises:
        Refused: an environment file is among them, and it cannot be told how the kubelet would be started with it.
        StepFailed: a path cannot be looked at.
    """
    then = with_files(files, words, new)
    environment = {path: content for path in start.environment_files if (content := then.content(path)) is not None}
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
    gone = _set_by(before).keys() - after.environment.keys()
    return replace(then, words=after.words[1:], sets=dict(after.environment), drops=frozenset(gone))


def _set_by(known: Command) -> Mapping[str, str]:
    return known.environment or {}


def _is_directory(entry: FileEntry | None) -> bool:
    return entry is not None and entry.kind in {EntryKind.DIRECTORY, EntryKind.LINK}


def _drop_in(files: FilesView, path: PurePosixPath) -> bytes | None:
    if (files.size(path) or 0) > LARGEST_DROP_IN:
        raise StepFailed(f"{path} is too large for a drop-in")
    return files.read(path)
