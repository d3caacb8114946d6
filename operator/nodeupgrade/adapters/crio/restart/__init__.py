"""Restarting CRI-O: the configuration it would start with, and the hazards."""
