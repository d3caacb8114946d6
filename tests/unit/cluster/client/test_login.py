"""One login for us and for kopf: the service account of a pod, whose token the kubelet renews."""

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.config import incluster_config

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import NODES, NoClusterError, UnavailableError
from tests.builders.certificates import self_signed


@pytest.fixture
async def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A pod's service account; the API server answers with the token that it was sent."""
    certificate, key = self_signed(tmp_path)
    (tmp_path / "token").write_text("first")

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": request.headers["Authorization"]}})

    server = web.Application()
    server.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(server)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(runner.addresses[0][1]))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
    try:
        yield tmp_path
    finally:
        await runner.cleanup()


async def test_a_renewed_token_is_used_by_whoever_speaks(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = property(lambda _: timedelta(0), lambda _, __: None)
    monkeypatch.setattr(incluster_config.InClusterConfigLoader, "_token_refresh_period", at_once, raising=False)
    async with KubeClient.open() as kube:
        session = kube.session()

        async def told() -> tuple[str, str]:
            async with session.http.get(f"{session.server}/api") as answer:
                theirs = (await answer.json())["metadata"]["name"]
            return (await kube.get(NODES, "any"))["metadata"]["name"], theirs

        assert await told() == ("bearer first", "bearer first")
        (account / "token").write_text("second")
        assert await told() == ("bearer second", "bearer second")
    assert session.http.closed


async def test_an_authority_that_nobody_knows_is_not_believed(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
    async with KubeClient.open() as kube:
        session = kube.session()
        with pytest.raises(OSError, match="localhost"):
            await session.http.get(f"{session.server}/api")
    assert (account / "token").exists()


async def test_what_a_kubeconfig_says_of_the_connection_counts_for_both(account: Path) -> None:
    cluster = {
        "server": f"https://localhost:{os.environ['KUBERNETES_SERVICE_PORT']}",
        "certificate-authority": str(account / "tls.crt"),
        "tls-server-name": "127.0.0.1",
    }
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": "mine"}}],
    }
    (account / "kubeconfig").write_text(json.dumps(config))
    async with KubeClient.open(account / "kubeconfig") as kube:
        session = kube.session()
        async with session.http.get(f"{session.server}/api") as answer:
            theirs = (await answer.json())["metadata"]["name"]
        assert (await kube.get(NODES, "any"))["metadata"]["name"] == theirs == "Bearer mine"


async def test_a_context_means_a_kubeconfig_in_a_pod_too(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the pod's own cluster would be taken for each of several contexts."""
    monkeypatch.setenv("KUBECONFIG", str(account / "kubeconfig"))
    with pytest.raises(NoClusterError, match="no such file"):
        async with KubeClient.open(context="prod"):
            pass


async def test_passwords_of_other_servers_are_none_of_its_business(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (account / "netrc").write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(account / "netrc"))
    async with KubeClient.open(patience=Patience(retry_seconds=0)) as kube:
        session = kube.session()
        async with session.http.get(f"{session.server}/api") as answer:
            theirs = (await answer.json())["metadata"]["name"]
        assert (await kube.get(NODES, "any"))["metadata"]["name"] == theirs == "bearer first"


@pytest.mark.parametrize(
    ("exempt", "asked"),
    [("", 2), ("10.0.0.0/8, example.com", 2), ("127.0.0.1", 0), ("10.0.0.0/8, 127.0.0.0/8", 0)],
    ids=["none", "others", "address", "network"],
)
async def test_the_proxy_of_the_environment_is_used(
    account: Path, monkeypatch: pytest.MonkeyPatch, exempt: str, asked: int
) -> None:
    requests = list[str]()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", exempt)
        async with KubeClient.open(patience=Patience(retry_seconds=0)) as kube:
            session = kube.session()
            with contextlib.suppress(UnavailableError):
                await kube.get(NODES, "any")
            with contextlib.suppress(aiohttp.ClientError):
                await session.http.get(f"{session.server}/api")
    assert [request.split()[0] for request in requests] == ["CONNECT"] * asked
