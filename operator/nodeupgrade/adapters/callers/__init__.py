"""Who calls the shield: the kubelet, or somebody else. Only the shield's own process imports this package."""

from nodeupgrade.adapters.callers.described import UNKNOWN, described
from nodeupgrade.adapters.callers.front import Front, Peer

__all__ = ["UNKNOWN", "Front", "Peer", "described"]
