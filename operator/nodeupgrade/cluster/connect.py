"""Connects to the API server from inside or outside a cluster."""

import importlib.util
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.kubectl import Kubectl

LIBRARY = "kubernetes"


def connect(
    kubeconfig: Path | None = None, context: str | None = None, request_seconds: float | None = None
) -> AbstractAsyncContextManager[KubeClient]:
    """Connect to the API server; for a person, by kubectl where the official library is not installed.

    Args:
        kubeconfig: Path of the kubeconfig; None for the service account of this pod, or the user's usual places.
        context: Context in the kubeconfig; None for the current one.
        request_seconds: Timeout of one request, for a person who waits at the terminal: retries are few, too.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    if request_seconds is None:
        return KubeClient.open(kubeconfig, context)
    if importlib.util.find_spec(LIBRARY) is None:
        return KubeClient.by_kubectl(Kubectl(kubeconfig, context, request_seconds))
    from nodeupgrade.cluster.client.transport import Patience  # noqa: PLC0415 - it needs the library

    patience = Patience(request_seconds=request_seconds, retry_seconds=request_seconds / 2)
    return KubeClient.open(kubeconfig, context, patience)
