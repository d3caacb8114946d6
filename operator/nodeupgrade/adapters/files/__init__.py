"""Files of one node, changed atomically and durably."""

from nodeupgrade.adapters.files.atomic import stamp, sync_directory, sync_file
from nodeupgrade.adapters.files.host import HostFiles
from nodeupgrade.adapters.files.opening import resolve

__all__ = ["HostFiles", "resolve", "stamp", "sync_directory", "sync_file"]
