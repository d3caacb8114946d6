"""The journal of one run as a file: append-only, with a single writer, every record on stable storage."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.atomic import (
    exists,
    fresh_beside,
    make_directory,
    remove_leftover,
    sync_directory,
    write_all,
)
from nodeupgrade.node.host.files.reading import CHUNK, chunks_of, read_file
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.journal.journal import Journal, Record, may_be_lost, parse, render
from nodeupgrade.node.journal.run_store import BusyError
from nodeupgrade.node.journal.scrubbing import without_images

RESERVE_BYTES = 256 * 1024
"""Enough for all records of a rollback and the files that it writes."""
LARGEST = 1024 * CHUNK
"""Bytes. It holds what a runtime stores about every container."""


def lock(descriptor: int) -> None:
    """Lock an open file against other processes until it is closed.

    Raises:
        BlockingIOError: another process has locked it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_journal(path: Path, *, disk: Disk = os) -> Journal:
    """Read a journal, even while another process writes it; an incomplete last record is ignored.

    Raises:
        Inconsistent: the journal is damaged before its last line.
    """
    try:
        return parse(read_file(path, limit=LARGEST, disk=disk))[0]
    except FileNotFoundError:
        return Journal()


def scrub(path: Path, *, disk: Disk = os) -> None:
    """Remove before-images from the journal of a finished run, by replacing the file atomically.

    Raises:
        StepFailed: the journal cannot be read or written.
        Inconsistent: the journal is damaged before its last line.
    """
    try:
        data = read_file(path, limit=LARGEST, disk=disk)
        rest = without_images(data)
        if rest == data:
            return
        with fresh_beside(path, mode=0o600, disk=disk) as descriptor:
            write_all(descriptor, rest, disk=disk)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StepFailed(f"cannot remove before-images from {path}: {error}") from error


def drop_reserve(path: Path, *, disk: Disk = os) -> None:
    """Free the disk space reserved for this journal. Call it only once the run is over."""
    with suppress(OSError):
        disk.unlink(_reserve(path))


def _reserve(path: Path) -> Path:
    return path.with_name(f"{path.name}.reserve")


def _opened(path: Path, disk: Disk) -> int:
    """Open a journal for writing; if its file system has become read-only, for reading, so that it can be locked."""
    try:
        return disk.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return disk.open(path, os.O_RDONLY | os.O_CLOEXEC)


class FileJournal:
    """Implements JournalOnDisk. Use it as a context manager: it holds a lock until it is closed.

    A full disk must not strand a node without its kubelet. So space is reserved while the journal is open, and freed
    when a record does not fit. If somebody removes or replaces the file, the next record puts it back as a whole.

    Args:
        path: the file; its directory must exist.
        disk: receives the system calls.
        lock: locks out other processes.
        seize: whether to take over a file that another process has locked, by a copy in its place.

    Raises:
        BusyError: another process holds the lock.
    """

    def __init__(self, path: Path, *, disk: Disk = os, lock: Callable[[int], None] = lock, seize: bool = False) -> None:
        self._path = path
        self._disk = disk
        self._lock = lock
        self._reserve = _reserve(path)
        existed = exists(path, disk)
        self._descriptor = _opened(path, disk)
        try:
            self._lock_out(seize=seize)
        except OSError as error:
            disk.close(self._descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            raise BusyError(f"cannot write {path} because another executor does; wait until it is done") from error
        if not existed:
            sync_directory(path.parent, disk)
        self._whole = disk.fstat(self._descriptor).st_size
        self._allocate_reserve()

    def _lock_out(self, *, seize: bool) -> None:
        try:
            self._lock(self._descriptor)
        except BlockingIOError:
            if not seize:
                raise
            self._whole = self._disk.fstat(self._descriptor).st_size
            self._put_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock and the reserve."""
        drop_reserve(self._path, disk=self._disk)
        self._disk.close(self._descriptor)

    def load(self) -> Journal:
        """Read all records, and truncate the incomplete last one that a crash may have left."""
        journal, self._whole = parse(read_file(self._path, limit=LARGEST, disk=self._disk))
        with suppress(OSError):  # the next append truncates it
            self._cut()
        return journal

    def append(self, record: Record) -> None:
        """Append a record durably, or not at all.

        A record that may be lost is not synced: it reaches the disk with the next one, which halves the waiting.
        """
        line, deferred = render(record), may_be_lost(record)
        try:
            self._write(line, deferred=deferred)
        except OSError as error:
            if error.errno != errno.ENOSPC or not exists(self._reserve, self._disk):
                raise StepFailed(f"cannot write the journal {self._path}: {error}") from error
            try:
                self._disk.unlink(self._reserve)
                self._write(line, deferred=deferred)
            except OSError as second:
                raise StepFailed(f"cannot write the journal {self._path}: {second}") from second

    def keep(self, count: int) -> None:
        data = read_file(self._path, limit=LARGEST, disk=self._disk)
        self._whole = sum(len(line) + 1 for line in data.split(b"\n")[:count])

    def put_back(self) -> None:
        with suppress(OSError):
            if self._whole and not self._is_in_place():
                self._put_back()

    def scrub(self) -> None:
        scrub(self._path, disk=self._disk)

    def _write(self, line: bytes, *, deferred: bool) -> None:
        if not self._is_in_place():
            self._put_back()
        self._cut()
        try:
            write_all(self._descriptor, line, disk=self._disk)
            if not deferred:
                self._disk.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):  # the next append or load truncates it
                self._cut()
            raise
        self._whole += len(line)

    def _is_in_place(self) -> bool:
        """Report whether its path leads to it; true also of a directory there, which nothing can replace."""
        try:
            found, own = self._disk.lstat(self._path), self._disk.fstat(self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino) or stat.S_ISDIR(found.st_mode)

    def _put_back(self) -> None:
        """Make the file and its directory again from what the open descriptor still leads to."""
        self._disk.lseek(self._descriptor, 0, os.SEEK_SET)
        data = b"".join(chunks_of(self._descriptor, LARGEST, disk=self._disk))[: self._whole]
        make_directory(self._path.parent, mode=0o700, disk=self._disk)
        fresh = remove_leftover(self._path, disk=self._disk)
        again = self._disk.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self._lock(again)
            write_all(again, data, disk=self._disk)
            self._disk.fsync(again)
            self._disk.rename(fresh, self._path)
        except OSError:
            self._disk.close(again)
            remove_leftover(self._path, disk=self._disk)
            raise
        self._disk.close(self._descriptor)
        self._descriptor = again
        self._allocate_reserve()
        sync_directory(self._path.parent, self._disk)

    def _cut(self) -> None:
        """Truncate the file after the last complete record, and seek to its end."""
        if self._disk.fstat(self._descriptor).st_size > self._whole:
            self._disk.ftruncate(self._descriptor, self._whole)
            self._disk.fsync(self._descriptor)
        self._disk.lseek(self._descriptor, self._whole, os.SEEK_SET)

    def _allocate_reserve(self) -> None:
        with suppress(OSError):  # a run without a reserve is as safe, but a full disk can make it wait
            descriptor = self._disk.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._disk.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                self._disk.close(descriptor)
