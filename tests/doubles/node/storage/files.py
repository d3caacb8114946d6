"""The simulated node's files."""

from collections.abc import Iterable, Mapping, MutableMapping
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import LARGEST_READ, DiskUsage, EntryKind, FileEntry, Misplaced
from nodeupgrade.node.names_beside import free_aside, hidden_aside
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.runtime_restart import PLACES
from tests.doubles.node.kubelet import stamp_of

FREE_BYTES = 10 * 1024**3
LONG_AGO = 1e9
_MODES = {EntryKind.LINK: 0o777, EntryKind.SOCKET: 0o755, EntryKind.DIRECTORY: 0o755}


class SimulatedFiles:
    """Implements node.host.files.files.Files over a dictionary that survives reboots, except for ``/run``.

    Attributes:
        touched: when a file or directory was changed, if not long ago.
        sockets: paths of sockets, which are not on the disk.
        links: what symbolic links say, by path, which are not on the disk; only reads follow them.
        odd: what is wrong with what lies at a path in place of a file.
        locked: the processes that have a lock of a file, by path.
        locked_for_writing: paths of those of which a process has a lock that only who may write to it gets.
        busy: paths of files that nobody can write, such as programs that run.
    """

    def __init__(self, disk: MutableMapping[str, bytes], calls: Calls) -> None:
        self.touched: dict[str, float] = {}
        self.sockets = {PLACES.address}
        self.odd: dict[str, str] = {}
        self.busy: set[str] = set()
        self.locked: dict[str, tuple[int, ...]] = {}
        self.locked_for_writing = set[str]()
        self.crowds = set[str]()
        self.links: dict[str, str] = {}
        self._disk = disk
        self._calls = calls

    def read(self, path: PurePosixPath, *, limit: int = LARGEST_READ) -> bytes | None:
        """The whole content; ``None`` if there is no such file."""
        self._calls.read(f"files.read {path}")
        data = self._content(self._followed(path))
        if data is not None and len(data) > limit:
            raise StepFailed(f"cannot read {path} because File too large")
        return data

    def read_state(self, path: PurePosixPath) -> bytes | None:
        """The whole content, unless something odd lies there; ``None`` if there is no such file."""
        why = "it is a symbolic link" if str(path) in self.links else self.odd.get(str(path))
        if why is not None:
            raise StepFailed(f"cannot read {path} because {why}")
        return self.read(path)

    def write_state(self, path: PurePosixPath, data: bytes | None, place: PurePosixPath) -> None:
        """Replace or remove the file, or what lies there instead, unless it is a directory."""
        with self._calls.effect(f"files.write_state {path}"):
            if self._is_directory(path):
                raise StepFailed(f"cannot write {path} because Is a directory")
            self.odd.pop(str(path), None)
            self.links.pop(str(path), None)
            self.sockets.discard(str(path))
            if data is None:
                self._disk.pop(str(path), None)
            else:
                self._disk[str(path)] = data

    def digest(self, path: PurePosixPath) -> Digest | None:
        """SHA-256 of the content; ``None`` if there is no such file."""
        self._calls.read(f"files.digest {path}")
        data = self._content(self._followed(path))
        return None if data is None else Digest(sha256(data).hexdigest())

    def size(self, path: PurePosixPath) -> int | None:
        """The content's size in bytes; ``None`` if there is no such file."""
        self._calls.read(f"files.size {path}")
        data = self._disk.get(str(self._followed(path)))
        return None if data is None else len(data)

    def stamp(self, path: PurePosixPath) -> str | None:
        """The content's checksum; ``None`` if there is no such file."""
        self._calls.read(f"files.stamp {path}")
        data = self._content(self._followed(path))
        return None if data is None else stamp_of(data)

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file."""
        with self._calls.effect(f"files.write {path}"):
            self._content(path)
            self._disk[str(path)] = data

    def write_kernel(self, path: PurePosixPath, data: bytes) -> None:
        """Replace the content of a file that is there."""
        with self._calls.effect(f"files.write_kernel {path}"):
            self._required(path)
            self._disk[str(path)] = data

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Copy the content."""
        with self._calls.effect(f"files.copy {target}"):
            self._content(target)
            self._disk[str(target)] = self._required(source)
            self.locked.pop(str(target), None)

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath, *, mode: int | None = None) -> None:
        """Require both files to exist; there are no attributes to copy here."""
        with self._calls.effect(f"files.adopt {target}"):
            self._required(pattern)
            self._required(target)

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Move the content of ``source`` to ``target``."""
        with self._calls.effect(f"files.replace {target}"):
            self._content(target)
            self._disk[str(target)] = self._required(source)

    def remove(self, path: PurePosixPath) -> None:
        """Remove a file; no error if it does not exist."""
        with self._calls.effect(f"files.remove {path}"):
            self._content(path)
            self._disk.pop(str(path), None)

    def set_aside(self, path: PurePosixPath) -> PurePosixPath | None:
        """Move what is there and is no file."""
        if self._kind(path) in {None, EntryKind.FILE}:
            return None
        aside = free_aside(path, lambda each: self._kind(each) is not None)
        with self._calls.effect(f"files.set_aside {path}"):
            self._move(path, aside)
        return aside

    def clear_way(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> PurePosixPath | None:
        """Move what is ``misplaced``."""
        if (found := self.misplaced(path, below, directory=directory)) is None:
            return None
        aside = found.path.with_name(hidden_aside())
        with self._calls.effect(f"files.clear_way {path}"):
            self._move(found.path, aside)
        return aside

    def _move(self, path: PurePosixPath, aside: PurePosixPath) -> None:
        for kept in (self.links, self.odd):
            if str(path) in kept:
                kept[str(aside)] = kept.pop(str(path))
        if str(path) in self._disk:
            self._disk[str(aside)] = self._disk.pop(str(path))
        self.busy.discard(str(path))
        for name in [name for name in self._disk if name.startswith(f"{path}/")]:
            self._disk[f"{aside}{name.removeprefix(str(path))}"] = self._disk.pop(name)

    def remove_links(self, directory: PurePosixPath) -> int:
        """Forget those of ``links`` that are in a directory."""
        here = [path for path in self.links if PurePosixPath(path).parent == directory]
        for path in here:
            with self._calls.effect(f"files.remove_links {directory}"):
                del self.links[path]
        return len(here)

    def tidy(self, path: PurePosixPath) -> None:
        """Do nothing: each change happens completely or not at all, so nothing is left behind."""

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Files in a directory, sorted."""
        self._calls.read(f"files.list {directory}")
        real = self._followed(directory)
        found = (path for name in self._disk if (path := PurePosixPath(name)).parent == real)
        return tuple(sorted(directory / path.name for path in found))

    def walk(self, directory: PurePosixPath, *, deep: bool = True) -> tuple[PurePosixPath, ...]:
        """Files in a directory and below it, and links, sorted."""
        self._calls.read(f"files.walk {directory}")
        real = self._followed(directory)
        paths = map(PurePosixPath, (*self._disk, *self.links))
        found = (path for path in paths if real in (path.parents if deep else path.parents[:1]))
        return tuple(sorted(directory / path.relative_to(real) for path in found))

    def real(self, path: PurePosixPath) -> PurePosixPath | None:
        """Where the path leads, if that is a file."""
        self._calls.read(f"files.real {path}")
        found = self._followed(path)
        return found if str(found) in self._disk else None

    def follow(self, path: PurePosixPath) -> PurePosixPath:
        """Where the path leads."""
        self._calls.read(f"files.follow {path}")
        return self._followed(path)

    def _followed(self, path: PurePosixPath) -> PurePosixPath:
        found = PurePosixPath("/")
        for part in path.parts[1:]:
            found = found.parent if part == ".." else found / part
            if (target := self.links.get(str(found))) is not None:
                found = self._followed(found.parent / target)
        return found

    def link(self, path: PurePosixPath) -> str | None:
        """What ``links`` says."""
        self._calls.read(f"files.link {path}")
        return self.links.get(str(path))

    def changed(self, path: PurePosixPath) -> float | None:
        """Long ago, unless it was touched."""
        self._calls.read(f"files.changed {path}")
        real = self._followed(path)
        there = str(real) in self._disk or self._is_directory(real)
        return self.touched.get(str(path), LONG_AGO if there else None)

    def immutable(self, path: PurePosixPath) -> bool:
        """Nothing is immutable here."""
        self._calls.read(f"files.immutable {path}")
        return False

    def socket(self, path: PurePosixPath) -> PurePosixPath | None:
        """The path itself, if it is one of ``sockets``; there are no symbolic links here."""
        self._calls.read(f"files.socket {path}")
        return path if str(path) in self.sockets else None

    def sockets_in(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Those of ``sockets`` that are in a directory, sorted."""
        self._calls.read(f"files.sockets_in {directory}")
        return tuple(sorted(path for path in map(PurePosixPath, self.sockets) if path.parent == directory))

    def is_crowded(self, directory: PurePosixPath) -> bool:
        """Whether it is one of ``crowds``."""
        self._calls.read(f"files.is_crowded {directory}")
        return str(directory) in self.crowds

    def lockers(
        self, paths: Iterable[PurePosixPath], *, writers: bool = True
    ) -> Mapping[PurePosixPath, tuple[int, ...]]:
        """Those of files that exist."""
        self._calls.read("files.lockers")
        found = (path for path in paths if str(path) in self.locked and str(path) in self._disk)
        return {path: self.locked[str(path)] for path in found if writers or str(path) not in self.locked_for_writing}

    def misplaced(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> Misplaced | None:
        """What is of another kind, or ``busy``."""
        self._calls.read(f"files.misplaced {path}")
        at = below
        for name in path.relative_to(below).parts:
            at /= name
            kind, wanted = self._kind(at), EntryKind.FILE if at == path and not directory else EntryKind.DIRECTORY
            if kind not in {None, wanted}:
                return Misplaced(path=at, what=f"is {kind}")
        return Misplaced(path=path, what="cannot be written: Text file busy") if str(path) in self.busy else None

    def is_empty(self, directory: PurePosixPath) -> bool:
        """Whether it is no directory, since there are none that are empty."""
        self._calls.read(f"files.is_empty {directory}")
        return not self._is_directory(self._followed(directory))

    def usage(self, path: PurePosixPath) -> DiskUsage:
        """Always plenty."""
        self._calls.read(f"files.usage {path}")
        return DiskUsage(size=2 * FREE_BYTES, free=FREE_BYTES, inodes=0, free_inodes=0)

    def entry(self, path: PurePosixPath) -> FileEntry | None:
        """What is there; there are no modes here."""
        self._calls.read(f"files.entry {path}")
        real = self._followed(path.parent) / path.name
        kind = self._kind(real)
        return None if kind is None else FileEntry(kind=kind, mode=_MODES.get(kind, 0o644), links=1, real=real)

    def _kind(self, path: PurePosixPath) -> EntryKind | None:
        if str(path) in self.links:
            return EntryKind.LINK
        if str(path) in self.sockets:
            return EntryKind.SOCKET
        if str(path) in self.odd:
            return EntryKind.OTHER
        if str(path) in self._disk:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if self._is_directory(path) else None

    def executable(self, path: PurePosixPath) -> bool:
        """Every file is."""
        self._calls.read(f"files.executable {path}")
        return str(self._followed(path)) in self._disk

    def _is_directory(self, path: PurePosixPath) -> bool:
        below = f"{path}/"
        return any(name.startswith(below) for name in self._disk)

    def _content(self, path: PurePosixPath) -> bytes | None:
        if self._is_directory(path):
            raise StepFailed(f"cannot change or read {path} because it is a directory")
        return self._disk.get(str(path))

    def _required(self, path: PurePosixPath) -> bytes:
        data = self._disk.get(str(path))
        if data is None:
            raise StepFailed(f"cannot read {path} because there is no such file")
        return data
