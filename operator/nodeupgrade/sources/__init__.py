"""Where programs may come from."""
