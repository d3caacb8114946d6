"""A watch that is broken off leaves no connection behind, whatever the API server does about it."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES
from tests.unit.certificates import self_signed

BOOKMARK = {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "5"}}}
SECONDS = 60.0


def deaf(listener: socket.socket, trust: ssl.SSLContext) -> bool:
    """Send one event of a watch, take no notice of TLS afterwards, and report whether the connection ended."""
    accepted, _ = listener.accept()
    with trust.wrap_socket(accepted, server_side=True) as connection:
        connection.recv(65536)
        line = json.dumps(BOOKMARK).encode() + b"\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(line), line))
        with socket.socket(fileno=connection.detach()) as raw:
            raw.settimeout(SECONDS)
            try:
                while raw.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            except TimeoutError:
                return False
            return True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, "Future[bool]"]]:
    """A kubeconfig for an API server of one watch, and whether that watch ended."""
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(*self_signed(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": address, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": "mine"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield tmp_path / "kubeconfig", threads.submit(deaf, listener, trust)


async def test_its_connection_is_broken_off_without_a_farewell(server: tuple[Path, "Future[bool]"]) -> None:
    kubeconfig, ended = server
    async with KubeClient.open(kubeconfig) as kube, aclosing(kube.watch(NODES, resource_version="1")) as events:
        assert (await anext(events)).body["metadata"]["resourceVersion"] == "5"
    assert await asyncio.wrap_future(ended)
