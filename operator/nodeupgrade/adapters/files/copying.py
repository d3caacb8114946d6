"""Copies a program atomically and durably, and returns its digest."""

import hashlib
import os
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.atomic import CHUNK, fresh_beside, write_all
from nodeupgrade.adapters.files.opening import opened
from nodeupgrade.ports.artifacts import CopyError


def copy(root: Path, source: PurePosixPath, destination: Path) -> str:
    """Copy `source`, a path below `root` without links, atomically and durably.

    Returns:
        The SHA-256 of what was written, as 64 hex digits.

    Raises:
        CopyError: the source is missing, a link or not a regular file, or the destination cannot be written.
    """
    digest = hashlib.sha256()
    try:
        with opened(root, source) as file, fresh_beside(destination, mode=0o755) as fresh:
            while chunk := os.read(file, CHUNK):
                digest.update(chunk)
                write_all(fresh, chunk)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CopyError(f"cannot copy {source} because it does not exist; check the path") from error
    except OSError as error:
        raise CopyError(f"cannot copy {source} to {destination}: {error.strerror or error}") from error
    return digest.hexdigest()
