"""Bundles: building one with the image, and bringing it onto a node."""

from nodeupgrade.adapters.bundle.store import NodeBundles

__all__ = ["NodeBundles"]
