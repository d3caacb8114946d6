"""Draw reports on a screen. Everything shown is computed elsewhere."""
