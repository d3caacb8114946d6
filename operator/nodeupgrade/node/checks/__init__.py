"""Checks of a node, one module a subject. They judge facts and gather none."""
