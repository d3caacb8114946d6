"""Copies a program, for the process that does nothing else; imports as little as possible."""

from nodeupgrade.adapters.files.copying import copy

__all__ = ["copy"]
