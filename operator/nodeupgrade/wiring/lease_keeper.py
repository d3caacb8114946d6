"""What renews a node's Lease from the host: no runtime, no files, and so nothing that they need."""

from nodeupgrade.adapters.kubelet.lease import KubeletLease
from nodeupgrade.adapters.observability import log_to_stderr
from nodeupgrade.kubelet.kubeconfig import Credentials
from nodeupgrade.ports.lease import LeaseApi

__all__ = ["lease_api", "log_to_stderr"]


def lease_api(credentials: Credentials, node: str) -> LeaseApi:
    """The Lease of one node, with the credentials of its kubelet."""
    return KubeletLease(credentials=credentials, node=node)
