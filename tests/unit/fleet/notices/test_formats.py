"""Tests for the formats of notices."""

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from nodeupgrade.api.configuration import NoticeFormat
from nodeupgrade.api.json import Json
from nodeupgrade.fleet.notices.formats import render
from nodeupgrade.fleet.notices.notice import Notice
from tests.builders.notices import NOTICE


def test_slack_is_told_in_words() -> None:
    content_type, body = render(NOTICE, NoticeFormat.SLACK)
    assert content_type == "application/json"
    assert body == {
        "text": "to-1-33: Stalled (3/9, wave canary, 2 nodes failed)\n"
        "A person is needed. 2 nodes failed; &lt;see&gt; status.failures &amp; more."
    }


def test_a_cloud_event_has_all_that_it_must_have() -> None:
    content_type, event = render(NOTICE, NoticeFormat.CLOUD_EVENTS)
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
    _, body = render(replace(NOTICE, **evil), form)  # type: ignore[arg-type]
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
