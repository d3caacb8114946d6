"""Reads the node's ``/proc``."""

from nodeupgrade.adapters.proc.listener import listener
from nodeupgrade.adapters.proc.table import INIT, ProcessTable

__all__ = ["INIT", "ProcessTable", "listener"]
