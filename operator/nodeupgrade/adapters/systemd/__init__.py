"""Controls the systemd units of one node through ``systemctl``."""
