"""Gather the facts that the checks judge. Nothing here changes the node."""
