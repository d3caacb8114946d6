"""The hazards that preflight looks for, made on a real node, one by one."""
