"""Units of the host's systemd."""
