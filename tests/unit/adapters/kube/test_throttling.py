"""An API server that has too much to do says when to come again, and says it to the client as a whole."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from nodeupgrade.cluster.client.transport import LONGEST_PAUSE_SECONDS, Patience, Transport
from nodeupgrade.cluster.kube_api import UnavailableError

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
