"""A journal on the simulated disk, in the format of the real one."""

from nodeupgrade.node.journal.journal import Journal, Record, parse, render
from nodeupgrade.node.journal.scrubbing import without_images
from tests.doubles.node.calls import Calls


class SimulatedJournal:
    """Implements node.journal.run_store.JournalOnDisk. An append that is interrupted midway leaves half a line.

    Attributes:
        data: what is on disk.
    """

    def __init__(self, calls: Calls) -> None:
        self.data = b""
        self._calls = calls

    def load(self) -> Journal:
        """Read all records; cut off what a torn append left."""
        self._calls.read("journal.load")
        journal, length = parse(self.data)
        self.data = self.data[:length]
        return journal

    def append(self, record: Record) -> None:
        """Append a record."""
        whole, line = self.data[: self.data.rfind(b"\n") + 1], render(record)

        def torn() -> None:
            self.data = whole + line[: len(line) // 2]

        with self._calls.effect(f"journal.append {record.step or 'run'} {record.mark}", torn=torn):
            self.data = whole + line

    def keep(self, count: int) -> None:
        """Cut off all but the first records."""
        self.data = b"".join(line + b"\n" for line in self.data.split(b"\n")[:count])

    def put_back(self) -> None:
        """Do nothing: nobody removes it."""

    def scrub(self) -> None:
        """Drop before-images if the run is over."""
        kept = without_images(self.data)
        if kept != self.data:
            with self._calls.effect("journal.scrub"):
                self.data = kept
