"""Plans, journals and messages of runs on a node's disk."""

from nodeupgrade.adapters.journal.file import FileJournal, read_journal
from nodeupgrade.adapters.journal.runs import RunStore

__all__ = ["FileJournal", "RunStore", "read_journal"]
