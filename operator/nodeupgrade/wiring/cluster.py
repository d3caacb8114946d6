"""Connects to the API server from inside or outside a cluster."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient


def kube(kubeconfig: Path | None = None) -> AbstractAsyncContextManager[KubeClient]:
    """Connect to the API server with a kubeconfig or, without one, with the service account of this pod."""
    return KubeClient.open(kubeconfig)
