"""The journal of a run whose disk can no longer be written: it goes on in memory, so that the run can turn back.

After a failed announcement nothing goes forward any more. What a rollback writes is only needed by an executor that is
started again during this boot, so a copy in ``/run`` is enough; after a reboot everything is undone once more.
"""

from contextlib import suppress
from itertools import takewhile
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.task.step import COMMIT
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.journal.journal import Journal, Mark, Record, parse, render
from nodeupgrade.node.journal.run_store import JournalOnDisk

log = structlog.get_logger()


class ContinuedJournal:
    """Implements JournalStore.

    Args:
        disk: the journal on the disk.
        files: of the node.
        path: where the records are that the disk did not take, for this boot.
    """

    def __init__(self, disk: JournalOnDisk, files: Files, path: PurePosixPath) -> None:
        self._disk = disk
        self._files = files
        self._path = path
        self._records: tuple[Record, ...] = ()
        self._pending: list[Record] = []

    def load(self) -> Journal:
        """Read all records. A line that stayed on the disk although writing it failed is none of them."""
        written = self._disk.load().records
        kept, _ = parse(self._files.read(self._path) or b"")
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(written, kept.records, strict=False)))
        self._pending = list(kept.records[common:])
        if self._pending:
            self._disk.keep(common)
        self._records = kept.records if self._pending else written
        return Journal(self._records)

    def append(self, record: Record) -> None:
        try:
            self._catch_up()
            self._disk.append(record)
        except StepFailed as error:
            if not _may_wait(record):
                raise
            log.warning("journal_write_failed", error=str(error))
            self._pending.append(record)
            with suppress(StepFailed):  # without it, an executor that is started again only undoes more
                self._files.write(self._path, b"".join(map(render, (*self._records, record))))
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
        with suppress(StepFailed):
            self._files.remove(self._path)


def _may_wait(record: Record) -> bool:
    """Report whether a record is of no effect that could not be repeated, and neither the commit nor the end."""
    return record.mark not in {Mark.DOING, Mark.FINISHED} and (
        record.mark is not Mark.DONE or record.step is not COMMIT
    )
