"""The disk that loses power, as the simulated node itself uses it."""

from collections.abc import Iterator, MutableMapping
from pathlib import PurePath

from tests.doubles.node.storage.disk import ModelDisk


class DiskView(MutableMapping[str, bytes]):
    """The files of a disk as a dictionary, for code that writes as if nothing could fail: the simulated node itself."""

    def __init__(self, disk: ModelDisk) -> None:
        self._disk = disk

    def __getitem__(self, path: str) -> bytes:
        data = self._disk.content(path)
        if data is None:
            raise KeyError(path)
        return data

    def __contains__(self, path: object) -> bool:
        try:
            self._disk.stat(PurePath(str(path)))
        except OSError:
            return False
        return True

    def __setitem__(self, path: str, data: bytes) -> None:
        self._disk.put(path, data)

    def __delitem__(self, path: str) -> None:
        self._disk.unlink(PurePath(path))

    def __iter__(self) -> Iterator[str]:
        return iter(self._disk.paths())

    def __len__(self) -> int:
        return len(self._disk.paths())
