"""Files of one node. Paths are absolute paths on the node."""

from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import Digest


class FilesView(Protocol):
    """What can be known of files without changing any.

    Every method raises StepFailed (chained from the OSError) when it does not take.
    """

    def read(self, path: PurePosixPath) -> bytes | None:
        """Whole content; ``None`` when there is no such file."""
        ...

    def digest(self, path: PurePosixPath) -> Digest | None:
        """SHA-256 of the content; ``None`` when there is no such file."""
        ...

    def size(self, path: PurePosixPath) -> int | None:
        """Bytes of the content; ``None`` when there is no such file."""
        ...

    def stamp(self, path: PurePosixPath) -> str | None:
        """What changes when the content does, by a replacement of the file or by writing into it.

        Costs no reading. Other names for the same file change nothing. ``None`` when there is no such file.
        """
        ...

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Regular files in a directory, sorted; empty when there is no such directory."""
        ...

    def walk(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Regular files and symbolic links in a directory and below it, in the order of their names; empty if none."""
        ...

    def changed(self, path: PurePosixPath) -> float | None:
        """When a file or directory was changed last in any respect, in seconds since 1970.

        Whatever leads to it counts too, such as a symbolic link that is pointed elsewhere. ``None`` when there is no
        such path.
        """
        ...

    def immutable(self, path: PurePosixPath) -> bool:
        """Whether a file or directory must not be changed, even by root; False for what is not there."""
        ...

    def free_bytes(self, path: PurePosixPath) -> int:
        """Bytes an unprivileged writer could still use on the filesystem holding ``path``."""
        ...


class Files(FilesView, Protocol):
    """Crash-safe file operations: after a power cut each is either wholly there or not at all.

    Every method raises StepFailed (chained from the OSError) when it does not take.
    """

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file atomically (temporary file beside it, fsync, rename, fsync of the directory).

        An existing file keeps its mode, owner and extended attributes. Missing parent directories are made.
        """
        ...

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Copy content, mode, owner and extended attributes; the target appears whole."""
        ...

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``pattern``."""
        ...

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Put the content of ``source`` at ``target`` by link and rename; ``source`` stays. Same filesystem."""
        ...

    def remove(self, path: PurePosixPath) -> None:
        """Remove a file; no error when it is not there."""
        ...

    def tidy(self, path: PurePosixPath) -> None:
        """Remove what an interrupted change of ``path`` left beside it; the file itself is not touched."""
        ...
