"""What the next start of the kubelet's unit would read, with the files of the run in place."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.node.checks.drift import Start, command
from nodeupgrade.domain.node.checks.units import paths_in, script_of
from nodeupgrade.domain.node.exchanged_files import EntryKind, FileEntry, FileFound, NewFile, changes_of
from nodeupgrade.domain.node.exchanged_files import is_drop_in as is_drop_in_of_unit
from nodeupgrade.domain.node.mounts import is_mount_point, is_read_only
from nodeupgrade.domain.node.systemd_units import UnitStart, UnitStatus, is_pattern, matching, unit_files
from nodeupgrade.engine.node.facts.own_places import mounts
from nodeupgrade.kubelet.layout import config_directory, is_drop_in
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.ports.files import FilesView

IN_MEMORY = ("/dev", "/proc", "/run", "/sys", "/tmp")  # noqa: S108  - nothing is written there
"""Where a command may find other content each time."""
SCRIPTS = frozenset({".sh", ".bash", ".py", ".pl"})
"""Files that are run by a program of their own, and need not be executable."""


def read_start(
    files: FilesView, unit: UnitStatus, more: Iterable[str] = (), directories: Iterable[str] = ()
) -> UnitStart:
    """Return how a unit would be started now, with more files, and directories in which its program looks for such."""
    named = (*unit_files(unit), *environment_files(files, unit), *more)
    content = {path: files.read(PurePosixPath(path)) for path in named if not is_pattern(path)}
    found = {path: "" if data is None else sha256(data).hexdigest() for path, data in content.items()}
    for path in filter(is_pattern, named):
        found[path] = " ".join(_matching(files, path))
    for directory in directories:
        found[f"{directory}/"] = " ".join(path.name for path in files.list(PurePosixPath(directory)))
    return UnitStart(unit=unit.name, program=unit.program, commands=unit.commands, files=found)


def run_by(files: FilesView, unit: UnitStatus, exchanged: PurePosixPath | None) -> Iterator[str]:
    """Yield the programs and scripts on a disk that a unit's other commands run, as far as their lines name them.

    Not the program of the kubelet, which the run itself exchanges.
    """
    for path, is_script in ((path, path == script_of(c)) for c in unit.commands for path in paths_in(c)):
        at = PurePosixPath(path)
        if not at.is_absolute() or any(at.is_relative_to(place) for place in IN_MEMORY):
            continue
        real = files.real(at)
        if real not in {None, exchanged} and (is_script or at.suffix in SCRIPTS or files.executable(at)):
            yield path


def environment_files(files: FilesView, unit: UnitStatus) -> tuple[str, ...]:
    """Return the files that a unit's environment is read from; of a pattern, those that there are."""
    found = (_matching(files, name) if is_pattern(name) else (name,) for name, _ in unit.environment_files)
    return tuple(path for paths in found for path in paths)


def _matching(files: FilesView, pattern: str) -> tuple[str, ...]:
    """Return the files that a pattern stands for; ``walk`` finds links to files, too."""
    return matching(pattern, map(str, files.walk(PurePosixPath(pattern).parent)))


def config_files(files: FilesView, words: tuple[str, ...]) -> list[PurePosixPath]:
    """Return the configuration files that a kubelet with this command line reads, in order."""
    paths = [PurePosixPath(path) for path in (Configured(words=words).flag("config"),) if path]
    if (directory := config_directory(words)) is not None:
        paths += [path for path in files.walk(PurePosixPath(directory)) if is_drop_in(path.name)]
    return paths


def read_again(files: FilesView, unit: UnitStatus, planned: UnitStart) -> UnitStart:
    """Read again everything that was read for the plan; a file that vanished or appeared is a difference."""
    own = set(unit_files(unit))
    rest = [path for path in planned.files if path not in own]
    now = read_start(
        files,
        unit,
        (path for path in rest if not path.endswith("/")),
        (path.removesuffix("/") for path in rest if path.endswith("/")),
    )
    return replace(now, digest=planned.digest)


# The node's files as the new kubelet will find them: as they are, except for those that are exchanged with it.


class FilesAfter:
    """Implements ports.files.FilesView.

    Args:
        now: the files as they are.
        changed: the new content of those that change, by path.
    """

    def __init__(self, now: FilesView, changed: Mapping[str, bytes]) -> None:
        self.stamp, self.changed, self.immutable = now.stamp, now.changed, now.immutable
        self.entry, self.executable, self.usage = now.entry, now.executable, now.usage
        self.socket, self.sockets_in = now.socket, now.sockets_in
        self._now = now
        self._new = changed

    def read(self, path: PurePosixPath) -> bytes | None:
        new = self._new.get(str(path))
        return self._now.read(path) if new is None else new

    def digest(self, path: PurePosixPath) -> Digest | None:
        new = self._new.get(str(path))
        return self._now.digest(path) if new is None else Digest(sha256(new).hexdigest())

    def size(self, path: PurePosixPath) -> int | None:
        new = self._new.get(str(path))
        return self._now.size(path) if new is None else len(new)

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        new = {path for path in map(PurePosixPath, self._new) if path.parent == directory}
        return tuple(sorted({*self._now.list(directory), *new}))

    def walk(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        new = {path for path in map(PurePosixPath, self._new) if directory in path.parents}
        return tuple(sorted({*self._now.walk(directory), *new}))

    def real(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path without symbolic links; a file that will be there is no link."""
        return path if str(path) in self._new else self._now.real(path)


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
        content=_drop_in(files, path) if usable and is_drop_in_of_unit(new.path) else None,
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
