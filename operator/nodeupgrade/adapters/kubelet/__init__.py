"""Access to the kubelet of one node."""

from nodeupgrade.adapters.kubelet.host import HostKubelet

__all__ = ["HostKubelet"]
