"""Copy one file and say what it was: `python -m nodeupgrade.agent.copy SOURCE DESTINATION`.

Runs from the bundle inside an artifact image, which needs to hold nothing but the kubelet: no shell and no
libraries.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nodeupgrade.adapters.files import sync_directory

_CHUNK_BYTES = 1024 * 1024


class CopyError(Exception):
    """The file cannot be copied; the message says why."""


def copy(source: Path, destination: Path) -> str:
    """Copy `source` to `destination`, durably and all or nothing, and return the SHA-256 as 64 hex digits.

    Raises:
        CopyError: the source is absent or no regular file, or the destination cannot be written.
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


def main(argv: Sequence[str]) -> int:
    """Copy as told on the command line and print `SHA256  DESTINATION`, as `sha256sum` does."""
    if len(argv) != 2:
        print("usage: python -m nodeupgrade.agent.copy SOURCE DESTINATION", file=sys.stderr)
        return 2
    source, destination = map(Path, argv)
    try:
        print(f"{copy(source, destination)}  {destination}")
    except CopyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
