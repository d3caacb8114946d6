"""Notices as receivers get them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from nodeupgrade.api.configuration import NoticeFormat, Receiver
from nodeupgrade.api.json import Json
from nodeupgrade.fleet.notices.delivery import DeliveryError
from nodeupgrade.fleet.notices.formats import rendered
from nodeupgrade.fleet.notices.notice import Notice
from nodeupgrade.fleet.notices.webhooks import Webhooks

NOTICE = Notice(
    id="abc",
    upgrade="to-1-33",
    uid="u-1",
    version="v1.33.13",
    time=datetime(2026, 1, 1, tzinfo=UTC),
    phase="Stalled",
    reason="FailureThresholdReached",
    message="2 nodes failed; <see> status.failures & more.",
    stalled=True,
    progress="3/9",
    failed=2,
    restarted=0,
    wave="canary",
)


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


def test_slack_is_told_in_words() -> None:
    content_type, body = rendered(NOTICE, NoticeFormat.SLACK)
    assert content_type == "application/json"
    assert body == {
        "text": "to-1-33: Stalled (3/9, wave canary, 2 nodes failed)\n"
        "A person is needed. 2 nodes failed; &lt;see&gt; status.failures &amp; more."
    }


def test_a_cloud_event_has_all_that_it_must_have() -> None:
    content_type, event = rendered(NOTICE, NoticeFormat.CLOUD_EVENTS)
    assert content_type.startswith("application/cloudevents+json")
    assert all(event[name] for name in ("specversion", "id", "source", "type"))
    assert event["data"]["message"] == NOTICE.message


@pytest.mark.parametrize("form", NoticeFormat)
def test_no_receiver_is_sent_what_cannot_be_printed(form: NoticeFormat) -> None:
    """In a chat nobody escapes it: names and messages may be anything."""
    evil = {
        name: f"\x1b[2J\u202e{name}\n"
        for name in ("upgrade", "version", "phase", "reason", "message", "progress", "wave")
    }
    _, body = rendered(replace(NOTICE, **evil), form)  # type: ignore[arg-type]
    sent = list(texts(body))
    assert {letter for text in sent for letter in text if not letter.isprintable()} <= (
        {"\n"} if "text" in body else set()
    )
    assert any("\\x1b[2J\\u202emessage\\n" in text for text in sent)


def texts(body: Json) -> Iterator[str]:
    for value in body.values():
        yield from texts(value) if isinstance(value, dict) else [value] if isinstance(value, str) else []


def test_the_notice_has_no_other_text() -> None:
    told = {each.name for each in fields(Notice) if isinstance(getattr(NOTICE, each.name), str)}
    assert told == {"id", "uid", "upgrade", "version", "phase", "reason", "message", "progress", "wave"}
