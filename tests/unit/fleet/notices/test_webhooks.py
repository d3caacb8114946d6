"""Tests for sending notices to receivers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from nodeupgrade.api.configuration import Receiver
from nodeupgrade.api.json import Json
from nodeupgrade.fleet.notices.notice import DeliveryError
from nodeupgrade.fleet.notices.webhooks import Webhooks
from tests.builders.notices import NOTICE


@dataclass
class Hook:
    """A receiver that answers with these statuses, one after the other."""

    statuses: list[int]
    url: str = ""
    got: list[tuple[str, str, Json]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        login = request.headers.get("Authorization", "")
        self.got.append((request.content_type, login, await request.json()))
        status = self.statuses.pop(0)
        return web.Response(status=status, headers={"Location": self.url} if 300 <= status < 400 else {})


@asynccontextmanager
async def hooked(*statuses: int) -> AsyncIterator[Hook]:
    hook, application = Hook(list(statuses)), web.Application()
    application.router.add_post("/secret", hook.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/secret"
        yield hook
    finally:
        await runner.cleanup()


def webhooks(url: str, **terms: str) -> Webhooks:
    return Webhooks([Receiver(name="ops", url=url, **terms)], pause=0.001)  # type: ignore[arg-type]


async def test_a_notice_arrives(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    async with hooked(204) as hook:
        await webhooks(hook.url, bearer_token_file=str(tmp_path / "token")).send("ops", NOTICE)
        ((content_type, login, body),) = hook.got
    assert (content_type, login) == ("application/json", "Bearer abc")
    assert (body["id"], body["phase"], body["failed"], body["time"]) == ("abc", "Stalled", 2, "2026-01-01T00:00:00Z")


async def test_a_busy_receiver_is_tried_again() -> None:
    async with hooked(503, 429, 200) as hook:
        await webhooks(hook.url).send("ops", NOTICE)
        assert len(hook.got) == 3


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (400, 1), (404, 1), (302, 1), (307, 1)])
async def test_one_that_does_not_take_it_is_an_error_without_its_url(status: int, attempts: int) -> None:
    async with hooked(*[status] * attempts) as hook:
        with pytest.raises(DeliveryError, match=f"ops .*{status}") as told:
            await webhooks(hook.url).send("ops", NOTICE)
        assert len(hook.got) == attempts
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/secret", "http://secret.invalid", "http://[::1secret"])
async def test_one_that_does_not_answer_is_an_error_without_its_url(url: str) -> None:
    with pytest.raises(DeliveryError, match="no answer") as told:
        await webhooks(url).send("ops", NOTICE)
    assert "secret" not in str(told.value)
