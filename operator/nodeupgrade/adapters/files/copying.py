"""Copies a program atomically and durably, and returns its digest."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.atomic import sync_directory
from nodeupgrade.adapters.files.opening import opened
from nodeupgrade.ports.artifacts import CopyError

_CHUNK_BYTES = 1024 * 1024


def copy(root: Path, source: PurePosixPath, destination: Path) -> str:
    """Copy `source`, a path below `root` without links, atomically and durably.

    Returns:
        The SHA-256 of what was written, as 64 hex digits.

    Raises:
        CopyError: the source is missing, a link or not a regular file, or the destination cannot be written.
    """
    partial = destination.with_name(f".{destination.name}.partial")
    try:
        with opened(root, source) as file:
            digest = _write(_chunks(file), partial)
        partial.rename(destination)
        sync_directory(destination.parent)
    except (FileNotFoundError, NotADirectoryError) as error:
        partial.unlink(missing_ok=True)
        raise CopyError(f"cannot copy {source} because it does not exist; check the path") from error
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CopyError(f"cannot copy {source} to {destination}: {error.strerror or error}") from error
    return digest


def _chunks(file: int) -> Iterator[bytes]:
    while chunk := os.read(file, _CHUNK_BYTES):
        yield chunk


def _write(chunks: Iterator[bytes], target: Path) -> str:
    digest = hashlib.sha256()
    target.unlink(missing_ok=True)
    with target.open("xb") as writer:
        for chunk in chunks:
            digest.update(chunk)
            writer.write(chunk)
        os.fchmod(writer.fileno(), 0o755)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()
