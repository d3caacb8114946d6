"""The shield's sockets and its log. The executor imports this package, so nothing here is slow to import."""

from nodeupgrade.adapters.shield.records import ShieldRecords
from nodeupgrade.adapters.shield.socket import Exchange, HostShield

__all__ = ["Exchange", "HostShield", "ShieldRecords"]
