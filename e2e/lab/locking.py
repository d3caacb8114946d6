"""Locks between processes, so that two labs do not create the same thing at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.lab import paths
from e2e.lab.progress import Progress


@contextmanager
def locked(name: str, progress: Progress) -> Iterator[None]:
    """Hold the lock ``name``; the kernel releases it even if this process is killed."""
    locks = paths.cache_root() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"waiting for another process that holds {name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
