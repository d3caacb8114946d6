"""The node's files as the new kubelet will find them: as they are, except for those that are exchanged with it."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.files.files import LARGEST_READ, FilesView


class FilesAfter:
    """Implements node.host.files.files.FilesView. A file is found under each of its names, through symbolic links too.

    Args:
        now: the files as they are.
        changed: the new content of those that change, by path; no link is exchanged.

    Raises:
        StepFailed: a path cannot be followed.
    """

    def __init__(self, now: FilesView, changed: Mapping[str, bytes]) -> None:
        self.stamp, self.changed, self.immutable = now.stamp, now.changed, now.immutable
        self.entry, self.executable, self.usage, self.is_empty = now.entry, now.executable, now.usage, now.is_empty
        self.read_state, self.socket, self.sockets_in = now.read_state, now.socket, now.sockets_in
        self.link, self.follow, self.is_crowded = now.link, now.follow, now.is_crowded
        self.misplaced, self.lockers = now.misplaced, now.lockers
        self._now = now
        self._new = {now.follow(PurePosixPath(path)): content for path, content in changed.items()}

    def new(self, path: PurePosixPath) -> bytes | None:
        """Return the new content of a file; ``None`` if it does not change, or is no file.

        Raises:
            StepFailed: the path cannot be followed.
        """
        return self._new.get(self.follow(path)) if self._new else None

    def read(self, path: PurePosixPath, *, limit: int = LARGEST_READ) -> bytes | None:
        new = self.new(path)
        return self._now.read(path, limit=limit) if new is None else new

    def digest(self, path: PurePosixPath) -> Digest | None:
        new = self.new(path)
        return self._now.digest(path) if new is None else Digest(sha256(new).hexdigest())

    def size(self, path: PurePosixPath) -> int | None:
        new = self.new(path)
        return self._now.size(path) if new is None else len(new)

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        new = (path for path in self._new_below(directory) if path.parent == directory)
        return tuple(sorted({*self._now.list(directory), *new}))

    def walk(self, directory: PurePosixPath, *, deep: bool = True) -> tuple[PurePosixPath, ...]:
        new = (path for path in self._new_below(directory) if deep or path.parent == directory)
        return tuple(sorted({*self._now.walk(directory, deep=deep), *new}))

    def _new_below(self, directory: PurePosixPath) -> Iterator[PurePosixPath]:
        real = self.follow(directory)
        return (directory / path.relative_to(real) for path in self._new if real in path.parents)

    def real(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path without symbolic links, also of a file that will be there."""
        return self._now.real(path) if self.new(path) is None else self.follow(path)
