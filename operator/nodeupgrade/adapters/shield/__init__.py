"""The shield's sockets and its log. The executor imports this package, so nothing here is slow to import."""

from nodeupgrade.adapters.shield.host import HostShield
from nodeupgrade.adapters.shield.socket import Exchange, Refusals, WaitingCalls

__all__ = ["Exchange", "HostShield", "Refusals", "WaitingCalls"]
