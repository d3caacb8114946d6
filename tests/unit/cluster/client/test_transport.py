"""Tests for requests to the API server: throttling, server time, failures, and watches that end."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from nodeupgrade.cluster.client import transport as module
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.requesting import LARGEST_RECENT
from nodeupgrade.cluster.client.transport import LONGEST_PAUSE_SECONDS, Patience, Transport
from nodeupgrade.cluster.kube_api import NODES, PODS, TooLargeError, UnavailableError
from tests.builders.certificates import self_signed
from tests.builders.kubeconfigs import write_kubeconfig


async def test_where_nobody_listens(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, "https://127.0.0.1:1")
    async with KubeClient.open(config, None, Patience(request_seconds=2, retry_seconds=0)) as kube:
        with pytest.raises(UnavailableError, match=r"does not answer \(127\.0\.0\.1:1: connection refused\)$"):
            await kube.get(NODES, "node-1")


THERE = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


async def test_it_is_that_of_the_last_answer_and_how_long_that_is_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 107.5])
    monkeypatch.setattr(module, "_since_boot", lambda: next(moments))
    there = transport(Client([Answer(200, {"Date": "Thu, 26 Nov 2026 12:00:00 GMT"})]))
    await there.request("GET", "/a")
    assert there.server_time() == THERE + timedelta(seconds=7.5)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
async def test_it_is_the_own_time_as_long_as_nothing_is_told(headers: dict[str, str]) -> None:
    there = transport(Client([Answer(200, headers)]))
    await there.request("GET", "/a")
    assert abs(there.server_time() - datetime.now(UTC)) < timedelta(minutes=1)


BUSY = b"Too many requests, please try again later.\n"
DENIED = b'{"kind": "Status", "code": 429, "message": "admission webhook \\"x\\" denied the request: later"}'
CLASSIFIED = {"X-Kubernetes-PF-FlowSchema-UID": "a", "X-Kubernetes-PF-PriorityLevel-UID": "b"}
"""Headers of every answer of an API server with priority and fairness."""


@dataclass
class Answer:
    """An HTTP response."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"

    async def read(self) -> bytes:
        return self.body

    def getheaders(self) -> dict[str, str]:
        return self.headers


@dataclass
class Client:
    """The library's client; answers as it is told, and notes when it was asked for what."""

    answers: list[Answer]
    asked: list[tuple[str, float]] = field(default_factory=list)

    async def param_serialize(self, method: str, path: str, **_: Any) -> tuple[str, str]:
        return method, path

    async def call_api(self, _method: str, path: str, **_: Any) -> Answer:
        self.asked.append((path, asyncio.get_running_loop().time()))
        return self.answers.pop(0) if self.answers else Answer(200)


def transport(client: Client, seconds: float = 30) -> Transport:
    return Transport(client, Patience(retry_seconds=seconds), lambda _verb, _code: None)


async def test_nobody_asks_before_the_time() -> None:
    client = Client([Answer(429, {"Retry-After": "1"}, BUSY)])
    there = transport(client)
    throttled = asyncio.ensure_future(there.request("GET", "/a"))
    await asyncio.sleep(0.1)
    assert len(client.asked) == 1
    await asyncio.gather(throttled, *(there.request("GET", "/b") for _ in range(5)))
    first = client.asked[0][1]
    assert [path for path, _ in client.asked].count("/b") == 5
    assert all(when - first >= 0.99 for _, when in client.asked[1:])


async def test_who_would_have_to_wait_too_long_is_told_for_how_long() -> None:
    client = Client([Answer(429, {"Retry-After": "600"}, BUSY)])
    there = transport(client, seconds=5)
    told = []
    for path in "/a", "/b":
        with pytest.raises(UnavailableError) as raised:
            await there.request("GET", path)
        told.append(raised.value.after)
    assert told[0] == 600
    assert 25 < told[1] <= LONGEST_PAUSE_SECONDS
    assert len(client.asked) == 1


@pytest.mark.parametrize("path", ["/a", "/b"])
async def test_a_webhook_that_asks_for_time_concerns_one_request(path: str) -> None:
    client = Client([Answer(429, {"Retry-After": "999", **CLASSIFIED}, DENIED)])
    there = transport(client, seconds=5)
    with pytest.raises(UnavailableError, match="denied the request") as raised:
        await there.request("POST", "/a", body={})
    assert raised.value.after == 999
    async with asyncio.timeout(3):
        assert await there.request("GET", path) == {}


@pytest.mark.parametrize("status", [500, 503, 504])
async def test_other_errors_are_about_one_request(status: int) -> None:
    client = Client([Answer(status, {"Retry-After": "600"})])
    there = transport(client, seconds=0)
    with pytest.raises(UnavailableError):
        await there.request("GET", "/a")
    assert await there.request("GET", "/b") == {}


@pytest.mark.parametrize(
    ("recent", "largest"), [(True, None), (False, LARGEST_RECENT)], ids=["of a request", "of a client"]
)
@pytest.mark.parametrize("size", [LARGEST_RECENT // 2, 64 * LARGEST_RECENT])
async def test_of_an_answer_that_is_larger_than_wanted_no_more_is_read(
    tmp_path: Path, size: int, recent: bool, largest: int | None
) -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"metadata": {"resourceVersion": "1"}, "items": []')
        with contextlib.suppress(ConnectionResetError):
            while sent < size:
                await response.write(b" " * 65536)
                sent += 65536
            await response.write(b"}")
        return response

    application = web.Application()
    application.router.add_get("/api/v1/pods", answer)
    async with TestServer(application) as there:
        config = write_kubeconfig(tmp_path, f"http://127.0.0.1:{there.port}")
        patience = Patience(request_seconds=20, retry_seconds=0)
        async with KubeClient.open(config, None, patience, largest=largest) as kube:
            if size < LARGEST_RECENT:
                assert await kube.list(PODS, recent=recent) == []
            else:
                with pytest.raises(TooLargeError, match="more than 4194304 bytes"):
                    await kube.list(PODS, recent=recent)
                assert sent < size / 2


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
