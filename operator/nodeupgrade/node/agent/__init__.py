"""The agent pod of a node."""
