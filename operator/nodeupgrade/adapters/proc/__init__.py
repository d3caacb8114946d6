"""Reads the node's ``/proc``."""

from nodeupgrade.adapters.proc.table import ProcessTable

__all__ = ["ProcessTable"]
