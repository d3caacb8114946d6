"""Access to a node's Lease. Imports neither runtime nor file adapters, nor anything they need."""

from nodeupgrade.adapters.kubelet.identity import KubeletLease
from nodeupgrade.adapters.logs import log_to_stderr

__all__ = ["KubeletLease", "log_to_stderr"]
