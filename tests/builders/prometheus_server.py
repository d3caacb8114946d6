"""A Prometheus that answers what a test says."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from nodeupgrade.api.configuration import PrometheusServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sample(value: object, seconds: float = 0, **labels: str) -> dict[str, Any]:
    """One sample of a vector, as old as it says."""
    return {"metric": labels, "value": [NOW.timestamp() - seconds, value]}


def vector(*samples: object, **more: object) -> bytes:
    """The answer to a query."""
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": samples}, **more}).encode()


@dataclass
class FakePrometheus:
    """What is answered, and what was asked."""

    answer: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def server(self, **terms: str) -> PrometheusServer:
        return PrometheusServer(name="default", url=f"{self.url}/prefix/", **terms)

    async def handle(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = f"{request.method} {request.path} {form.get('query', '')!s}"
        self.asked.append((asked, request.headers.get("Authorization", "")))
        return web.Response(body=self.answer, status=self.status, headers=self.headers)


@asynccontextmanager
async def serving(fake: FakePrometheus) -> AsyncIterator[FakePrometheus]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()
