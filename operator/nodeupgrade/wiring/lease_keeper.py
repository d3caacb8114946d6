"""Builds the lease keeper's API client. Imports neither runtime nor file adapters, nor anything they need."""

from nodeupgrade.adapters.kubelet.identity import KubeletLease
from nodeupgrade.adapters.logs import log_to_stderr
from nodeupgrade.kubelet.credentials import Credentials
from nodeupgrade.ports.kubelet import LeaseApi

__all__ = ["lease_api", "log_to_stderr"]


def lease_api(credentials: Credentials, node: str) -> LeaseApi:
    """Return access to one node's Lease with its kubelet's credentials."""
    return KubeletLease(credentials=credentials, node=node)
