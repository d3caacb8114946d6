"""Bundles: built with the image, and staged on a node."""

from nodeupgrade.adapters.bundle.store import NodeBundles

__all__ = ["NodeBundles"]
