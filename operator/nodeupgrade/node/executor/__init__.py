"""The executor on the host."""
