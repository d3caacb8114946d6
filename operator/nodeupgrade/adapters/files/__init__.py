"""Files of one node, changed atomically and durably."""

from nodeupgrade.adapters.files.atomic import sync_directory, sync_file
from nodeupgrade.adapters.files.confine import resolve
from nodeupgrade.adapters.files.host import HostFiles
from nodeupgrade.adapters.files.stamp import stamp

__all__ = ["HostFiles", "resolve", "stamp", "sync_directory", "sync_file"]
