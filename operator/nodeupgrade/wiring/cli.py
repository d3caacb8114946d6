"""The command line's way to the API server."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient, Patience


def connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float
) -> AbstractAsyncContextManager[KubeClient]:
    """Connect as the person who calls; somebody waits at a terminal, so little is tried again.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    patience = Patience(request_seconds=request_seconds, retry_seconds=request_seconds / 2)
    return KubeClient.open(kubeconfig, context, patience)
