"""How containerd comes back from a restart: what it would read, what it would do harm to, what makes it gentler."""
