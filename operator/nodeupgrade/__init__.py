"""Upgrade kubelets in place, without restarting a single container."""

__version__ = "0.1.0"
