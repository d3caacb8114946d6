"""Carry out one node's run through the ports."""
