"""Reads the node's ``/proc``."""

from nodeupgrade.adapters.proc.processes import INIT, ProcessTable
from nodeupgrade.adapters.proc.sockets import clients, listener, listening

__all__ = ["INIT", "ProcessTable", "clients", "listener", "listening"]
