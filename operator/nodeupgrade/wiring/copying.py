"""What copies a program, for the process that has nothing else to do: it loads as little as it can."""

from nodeupgrade.adapters.files.copying import copy

__all__ = ["copy"]
