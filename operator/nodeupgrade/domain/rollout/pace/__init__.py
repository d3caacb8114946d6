"""How many nodes may be started now, and which come first."""
