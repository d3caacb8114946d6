"""The kubelet of one node."""

from nodeupgrade.adapters.kubelet.host import CANNOT_RUN, HostKubelet

__all__ = ["CANNOT_RUN", "HostKubelet"]
