"""Connects to the API server from inside or outside a cluster."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient, Patience


def kube(kubeconfig: Path | None = None) -> AbstractAsyncContextManager[KubeClient]:
    """Connect to the API server with a kubeconfig or, without one, with the service account of this pod."""
    return KubeClient.open(kubeconfig)


# Connects the command line to the API server.


def connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float
) -> AbstractAsyncContextManager[KubeClient]:
    """Connect with the user's kubeconfig. Retries are few, since a person waits at the terminal.

    Args:
        kubeconfig: Path of the kubeconfig; None for the usual places.
        context: Context in the kubeconfig; None for the current one.
        request_seconds: Timeout of one request.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    patience = Patience(request_seconds=request_seconds, retry_seconds=request_seconds / 2)
    return KubeClient.open(kubeconfig, context, patience)
