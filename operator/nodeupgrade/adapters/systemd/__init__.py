"""Controls the systemd units of one node through ``systemctl``."""

from nodeupgrade.adapters.systemd.manager import SystemdManager

__all__ = ["SystemdManager"]
