"""The journal of one run as a file: append-only, one writer, every record on stable storage."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from nodeupgrade.adapters.files.atomic import sync_directory
from nodeupgrade.domain.errors import NodeUpgradeError, StepFailed
from nodeupgrade.domain.journal import Journal, Record, parse, render


class BusyError(NodeUpgradeError):
    """Another process writes this journal."""


def read_journal(path: Path) -> Journal:
    """Read a journal, also while somebody else writes it; a record that is being written does not count yet.

    Raises:
        Inconsistent: it is damaged before its last line.
    """
    try:
        return parse(path.read_bytes())[0]
    except FileNotFoundError:
        return Journal()


class FileJournal:
    """Implements ports.journal.JournalStore. Use as a context manager: the lock is held until it is closed.

    Raises:
        BusyError: another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        existed = path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise BusyError(f"cannot write {path} because another executor does; wait until it is done") from error
        if not existed:
            sync_directory(path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def load(self) -> Journal:
        """Read all records, and cut off what a crash left of one that was never finished."""
        journal, whole = parse(self._path.read_bytes())
        if whole < os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, whole)
            os.fsync(self._descriptor)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return journal

    def append(self, record: Record) -> None:
        """Add a record durably; when that fails, nothing of it stays."""
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        rest = memoryview(render(record))
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, end)
            raise StepFailed(f"cannot write the journal {self._path}: {error}") from error
