"""Copies a program atomically and durably, and returns its digest."""

import hashlib
import os
from pathlib import Path

from nodeupgrade.adapters.files.atomic import sync_directory
from nodeupgrade.ports.artifacts import CopyError

_CHUNK_BYTES = 1024 * 1024


def copy(source: Path, destination: Path) -> str:
    """Copy `source` to `destination`, atomically and durably, and return the SHA-256 as 64 hex digits.

    Raises:
        CopyError: the source is missing or not a regular file, or the destination cannot be written.
    """
    if not source.exists():
        raise CopyError(f"cannot copy {source} because it does not exist; check the path inside the image")
    if not source.is_file():
        raise CopyError(f"cannot copy {source} because it is not a regular file")
    partial = destination.with_name(f".{destination.name}.partial")
    try:
        digest = _write(source, partial)
        partial.rename(destination)
        sync_directory(destination.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CopyError(f"cannot copy {source} to {destination}: {error}") from error
    return digest


def _write(source: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        os.fchmod(writer.fileno(), 0o755)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()
