"""Reads the simulated disk as a program of the node does, whatever lies there."""

from collections.abc import Mapping
from contextlib import suppress


def readable(disk: Mapping[str, bytes], path: str) -> bytes | None:
    """Return the content of a file; ``None`` if there is none that can be read."""
    with suppress(KeyError, OSError):
        return disk[path]
    return None
