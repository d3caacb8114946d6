"""The node's host: files, processes, systemd, packages."""
