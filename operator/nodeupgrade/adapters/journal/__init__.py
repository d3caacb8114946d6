"""Plans and journals on a node's disk."""

from nodeupgrade.adapters.journal.file import BusyError, FileJournal, read_journal
from nodeupgrade.adapters.journal.runs import RunStore

__all__ = ["BusyError", "FileJournal", "RunStore", "read_journal"]
