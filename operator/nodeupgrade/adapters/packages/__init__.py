"""Access to the package manager of one node."""

from nodeupgrade.adapters.packages.dpkg import Dpkg

__all__ = ["Dpkg"]
