"""Reads the node's ``/proc``."""

from nodeupgrade.adapters.proc.processes import INIT, ProcessTable
from nodeupgrade.adapters.proc.sockets import clients, credentials, listener, listening, open_listener

__all__ = ["INIT", "ProcessTable", "clients", "credentials", "listener", "listening", "open_listener"]
