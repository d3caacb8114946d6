"""Messages of containerd's API, generated."""
