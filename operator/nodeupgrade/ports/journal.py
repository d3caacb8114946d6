"""Where the journal of one run is kept."""

from typing import Protocol

from nodeupgrade.domain.node.run.journal import Journal, Record


class JournalStore(Protocol):
    """An append-only, durable list of records with one writer."""

    def load(self) -> Journal:
        """Read all records.

        Raises:
            Inconsistent: the journal is damaged before its last line.
        """
        ...

    def append(self, record: Record) -> None:
        """Add a record; it is on stable storage when this returns, unless it may be lost (domain.journal).

        Raises:
            StepFailed: it could not be made durable; the effect it announces must not start.
        """
        ...

    def scrub(self) -> None:
        """Forget before-images if the run is over. Cut off, it has happened or not; nothing is appended afterwards.

        Raises:
            StepFailed: it cannot be written.
        """
        ...
