"""Nodes that hold a slot: from the claim to the verdict."""
