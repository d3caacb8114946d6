"""Placeholder docstring, written with the package."""
