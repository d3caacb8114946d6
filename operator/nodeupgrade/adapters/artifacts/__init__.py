"""Kubelet programs from elsewhere."""

from nodeupgrade.adapters.artifacts.download import download

__all__ = ["download"]
