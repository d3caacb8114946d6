"""Files of the host."""
