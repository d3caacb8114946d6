"""What is said of an API server that does not answer: in a few words, without the settings of the connection."""

from pathlib import Path

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import NODES, UnavailableError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
current-context: a
"""


async def test_where_nobody_listens(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG, encoding="utf-8")
    async with KubeClient.open(config, None, Patience(request_seconds=2, retry_seconds=0)) as kube:
        with pytest.raises(UnavailableError, match=r"does not answer \(127\.0\.0\.1:1: connection refused\)$"):
            await kube.get(NODES, "node-1")
