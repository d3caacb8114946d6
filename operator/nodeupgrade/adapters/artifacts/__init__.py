"""Fetches kubelet programs."""

from nodeupgrade.adapters.artifacts.download import download
from nodeupgrade.adapters.artifacts.on_node import NodeArtifacts

__all__ = ["NodeArtifacts", "download"]
