"""The units of systemd that a run depends on: their status, what a start of them reads, the fence."""
