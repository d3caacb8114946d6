"""Bundles: built with the image, and staged on a node."""
