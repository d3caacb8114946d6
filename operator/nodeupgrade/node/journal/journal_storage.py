"""Stores the journal of one run."""

from typing import Protocol

from nodeupgrade.node.journal.journal import Journal, Record


class JournalStore(Protocol):
    """An append-only, durable list of records with one writer."""

    def load(self) -> Journal:
        """Read all records.

        Raises:
            Inconsistent: the journal is damaged before its last line.
        """

    def append(self, record: Record) -> None:
        """Add a record. It is on stable storage on return, unless it is one that may be lost (domain.node.run.journal).

        Raises:
            StepFailed: it could not be made durable; the effect that it announces must not start.
        """

    def scrub(self) -> None:
        """Remove before-images if the run is over. Atomic; nothing is appended afterwards.

        Raises:
            StepFailed: the journal cannot be written.
        """
