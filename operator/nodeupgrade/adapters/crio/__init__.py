"""The CRI-O runtime: its containers and sandboxes, and the container hashes that it stores for the kubelet."""

from nodeupgrade.adapters.crio.runtime import CrioRuntime

__all__ = ["CrioRuntime"]
