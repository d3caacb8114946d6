"""Restarting containerd: the configuration it would start with, the hazards, and how to mitigate them."""
