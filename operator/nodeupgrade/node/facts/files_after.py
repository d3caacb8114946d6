"""The node's files as the new kubelet will find them: as they are, except for those that are exchanged with it."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.files.files import LARGEST_READ, FilesView


class FilesAfter:
    """Implements node.host.files.files.FilesView.

    Args:
        now: the files as they are.
        changed: the new content of those that change, by path.
    """

    def __init__(self, now: FilesView, changed: Mapping[str, bytes]) -> None:
        self.stamp, self.changed, self.immutable = now.stamp, now.changed, now.immutable
        self.entry, self.executable, self.usage = now.entry, now.executable, now.usage
        self.read_state, self.socket, self.sockets_in = now.read_state, now.socket, now.sockets_in
        self.link = now.link
        self._now = now
        self._new = changed

    def read(self, path: PurePosixPath, *, limit: int = LARGEST_READ) -> bytes | None:
        new = self._new.get(str(path))
        return self._now.read(path, limit=limit) if new is None else new

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
