"""Cordons of nodes in flight."""
