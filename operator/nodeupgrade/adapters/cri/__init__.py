"""The Container Runtime Interface over a unix socket."""

from nodeupgrade.adapters.cri.client import CriClient
from nodeupgrade.adapters.cri.connection import Connection, NotFound, Unimplemented, framed

__all__ = ["Connection", "CriClient", "NotFound", "Unimplemented", "framed"]
