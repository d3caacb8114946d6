"""Copies a program, for the process that does nothing else; imports as little as possible."""

from nodeupgrade.adapters.files.opening import copy, real

__all__ = ["copy", "real"]
