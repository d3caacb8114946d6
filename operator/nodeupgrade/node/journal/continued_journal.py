"""The journal of a run whose disk can no longer be written: it goes on in memory, so that the run can turn back.

After a failed announcement nothing goes forward any more. What a rollback writes is only needed by an executor that is
started again during this boot, so a copy in ``/run`` is enough; after a reboot everything is undone once more. The copy
is there from the beginning, and removed where it cannot be written, which needs no space. So without one, something may
have been lost, and an executor that is started again turns back: what its journal says is done may be undone by now.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.journal.journal import Journal, Mark, Record, parse, render
from nodeupgrade.node.journal.run_store import JournalOnDisk

log = structlog.get_logger()

LOST = "the executor was started again, and what it could not write to the disk is lost"


class ContinuedJournal:
    """Implements JournalStore.

    Args:
        disk: the journal on the disk.
        files: of the node.
        path: where the records are that the disk did not take, for this boot.
        boot: this boot.
    """

    def __init__(self, disk: JournalOnDisk, files: Files, path: PurePosixPath, boot: BootIdentity) -> None:
        self._disk = disk
        self._files = files
        self._path = path
        self._boot = boot
        self._records: tuple[Record, ...] = ()
        self._pending: list[Record] = []
        self._copied = b""  # all records, as long as the disk does not take the last of them

    def load(self) -> Journal:
        """Read all records. A line that stayed on the disk although writing it failed is none of them."""
        written, copy = self._disk.load(), self._copy()
        kept, whole = parse(copy or b"")
        common = written.shared_with(kept)
        self._pending = list(kept.records[common:])
        if self._pending and copy is not None:
            self._disk.keep(common)
            self._copied = copy[:whole]
        self._records = kept.records if self._pending else written.records
        if copy is None:
            self._turn_back()
        return Journal(self._records)

    def append(self, record: Record) -> None:
        if not self._records:
            self._write(b"")
        try:
            self._catch_up()
            self._disk.append(record)
        except StepFailed as error:
            if not _may_wait(record):
                raise
            log.warning("journal_write_failed", error=str(error))
            self._pending.append(record)
            new = (record,) if self._copied else (*self._records, record)
            self._copied += b"".join(map(render, new))
            self._write(self._copied)
        self._records = (*self._records, record)

    def scrub(self) -> None:
        """Remove before-images, and the copy in memory, which has them too."""
        with suppress(StepFailed):
            self._files.remove(self._path)
        self._disk.scrub()

    def _catch_up(self) -> None:
        if not self._pending:
            return
        while self._pending:
            self._disk.append(self._pending[0])
            del self._pending[0]
        self._copied = b""
        self._write(b"")

    def _copy(self) -> bytes | None:
        try:
            return self._files.read(self._path)
        except StepFailed:
            return None

    def _write(self, data: bytes) -> None:
        try:
            self._files.write(self._path, data)
        except StepFailed:
            with suppress(StepFailed):
                self._files.remove(self._path)

    def _turn_back(self) -> None:
        last = self._records[-1] if self._records else None
        if last is None or last.boot != self._boot or not _goes_forward(last):
            return
        lost = replace(last, seq=last.seq + 1, mark=Mark.FAILED, payload=None, error=LOST, reason=Reason.EXECUTOR_LOST)
        self.append(lost)


def _may_wait(record: Record) -> bool:
    """Report whether a record is of no effect that could not be repeated, and neither the commit nor the end."""
    return record.mark not in {Mark.DOING, Mark.FINISHED} and not _commits(record)


def _goes_forward(last: Record) -> bool:
    return last.mark in {Mark.DOING, Mark.DONE} and not _commits(last)


def _commits(record: Record) -> bool:
    return record.mark is Mark.DONE and record.step is COMMIT
