"""Connects to the API server from inside or outside a cluster."""

import contextlib
import importlib.util
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.kubectl import Kubectl, KubectlClient

LIBRARY = "kubernetes"
LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer that an agent reads: the pods of its node, 64 KiB for each of 250. Parsed, strings of two letters
take eighteen times as much, and two answers at once have to fit into an agent's memory. Once a node is examined, its
pods are read one by one, each up to this size, since anybody may enlarge them meanwhile."""


def connect_pod() -> AbstractAsyncContextManager[KubeClient]:
    """Connect with the service account of this pod, an agent; no answer larger than LARGEST_ANSWER is read."""
    return KubeClient.open(largest=LARGEST_ANSWER)


def connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float, user: str | None = None
) -> AbstractAsyncContextManager[KubeClient | KubectlClient]:
    """Connect a person to the API server, by kubectl where the official library is not installed.

    Args:
        kubeconfig: Path of the kubeconfig; None for the user's usual places.
        context: Context in the kubeconfig; None for the current one.
        request_seconds: Timeout of one request, for a person who waits at the terminal: retries are few, too.
        user: User to act as, if the login may impersonate it; None for its own.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    if importlib.util.find_spec(LIBRARY) is None:
        return contextlib.nullcontext(KubectlClient(Kubectl(kubeconfig, context, request_seconds, user)))
    from nodeupgrade.cluster.client.transport import Patience  # noqa: PLC0415 - it needs the library

    return KubeClient.open(
        kubeconfig,
        context,
        Patience(request_seconds=request_seconds, retry_seconds=request_seconds / 2),
        impersonated=user,
    )
