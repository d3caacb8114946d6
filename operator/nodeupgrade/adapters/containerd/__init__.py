"""containerd: what it runs, and the hashes it keeps for the kubelet."""

from nodeupgrade.adapters.containerd.program import Program
from nodeupgrade.adapters.containerd.runtime import ContainerdRuntime

__all__ = ["ContainerdRuntime", "Program"]
