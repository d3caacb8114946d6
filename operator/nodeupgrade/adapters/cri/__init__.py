"""Client for the Container Runtime Interface (CRI) over a unix socket."""

from nodeupgrade.adapters.cri.client import CriClient
from nodeupgrade.adapters.cri.connection import Call, Connection, NotFound, Unimplemented, framed

__all__ = ["Call", "Connection", "CriClient", "NotFound", "Unimplemented", "framed"]
