"""containerd: what it runs, and the hashes it keeps for the kubelet."""

from nodeupgrade.adapters.containerd.program import ContainerdProgram
from nodeupgrade.adapters.containerd.runtime import ContainerdRuntime

__all__ = ["ContainerdProgram", "ContainerdRuntime"]
