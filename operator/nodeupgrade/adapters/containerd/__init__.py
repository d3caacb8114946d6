"""The containerd runtime: its containers and sandboxes, and the container hashes that it stores for the kubelet."""

from nodeupgrade.adapters.containerd.daemon import ContainerdProgram
from nodeupgrade.adapters.containerd.runtime import ContainerdRuntime

__all__ = ["ContainerdProgram", "ContainerdRuntime"]
