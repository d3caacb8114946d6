"""Whom the API server lets in, and what is said when it does not."""

from pathlib import Path

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import UPGRADES, ForbiddenError, NoClusterError, UnavailableError
from tests.contract.kube.apiserver import ApiServer, free_ports


@pytest.mark.real
@pytest.mark.timeout(3600)
async def test_who_may_not_is_told_so(api_server: ApiServer) -> None:
    async with KubeClient.open(api_server.kubeconfig("nobody")) as kube:
        with pytest.raises(ForbiddenError, match=r"nodeupgrades\.nodeupgrade\.dev is forbidden"):
            await kube.list(UPGRADES)


@pytest.mark.parametrize("content", [None, "{}", "a: b: c"])
async def test_unusable_kubeconfig_is_named(tmp_path: Path, content: str | None) -> None:
    kubeconfig = tmp_path / "config"
    if content is not None:
        kubeconfig.write_text(content)
    with pytest.raises(NoClusterError, match=r"cannot use .*config because"):
        async with KubeClient.open(kubeconfig):
            pass


async def test_patience_ends(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        f'{{"current-context": "x", "contexts": [{{"name": "x", "context": {{"cluster": "x", "user": "x"}}}}],'
        f'"users": [{{"name": "x", "user": {{}}}}],'
        f'"clusters": [{{"name": "x", "cluster": {{"server": "http://127.0.0.1:{port}"}}}}]}}'
    )
    async with KubeClient.open(kubeconfig, patience=Patience(request_seconds=1, retry_seconds=0.1)) as kube:
        with pytest.raises(UnavailableError):
            await kube.list(UPGRADES)
