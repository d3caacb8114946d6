"""Processes of the host."""
