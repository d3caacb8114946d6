"""What lies at a path of the host."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath


class EntryKind(StrEnum):
    """What a path is."""

    FILE = "a regular file"
    DIRECTORY = "a directory"
    LINK = "a symbolic link"
    OTHER = "not a regular file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What is at a path itself; a symbolic link is not followed."""

    kind: EntryKind
    mode: int  # its permissions
    links: int  # how many names it has
    real: PurePosixPath  # the path without symbolic links in its directories
