"""What a restart of dockerd would be like, found out without one."""
