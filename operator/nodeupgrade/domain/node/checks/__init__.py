"""Checks: what speaks against touching a node, from facts gathered on it. Nothing is read here."""
