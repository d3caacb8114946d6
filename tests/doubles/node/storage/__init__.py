"""The simulated node's disk, and what is kept on it."""
