"""Reads the node's ``/proc``."""
