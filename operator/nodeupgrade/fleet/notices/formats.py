"""How a notice is written for a receiver."""

from dataclasses import asdict, replace
from typing import assert_never

from nodeupgrade.api.configuration import NoticeFormat
from nodeupgrade.api.json import Json, timestamp, to_json
from nodeupgrade.api.printable import printable
from nodeupgrade.api.wording import counted
from nodeupgrade.fleet.notices.notice import Notice

EVENT_TYPE = "dev.nodeupgrade.rollout.v1"


def render(notice: Notice, form: NoticeFormat) -> tuple[str, Json]:
    """Return the content type and the body of a request; of what others wrote, only what can be printed."""
    texts: Json = {name: printable(text) for name, text in asdict(notice).items() if isinstance(text, str)}
    notice = replace(notice, **texts)
    match form:
        case NoticeFormat.JSON:
            return "application/json", to_json(notice)
        case NoticeFormat.SLACK:
            return "application/json", {"text": _text(notice)}
        case NoticeFormat.CLOUD_EVENTS:
            event = {
                "specversion": "1.0",
                "id": notice.id,
                "source": f"/apis/nodeupgrade.dev/v1alpha1/nodeupgrades/{notice.upgrade}",
                "type": EVENT_TYPE,
                "subject": notice.upgrade,
                "time": timestamp(notice.time),
                "datacontenttype": "application/json",
                "data": to_json(notice),
            }
            return "application/cloudevents+json; charset=utf-8", event
        case _:
            assert_never(form)


def _text(notice: Notice) -> str:
    """Say it in two lines; what would be markup is escaped as Slack asks for."""
    wave = f", wave {notice.wave}" if notice.wave else ""
    failed = f", {counted(notice.failed, 'node')} failed" if notice.failed else ""
    restarted = f", {counted(notice.restarted, 'container')} restarted" if notice.restarted else ""
    head = f"{notice.upgrade}: {notice.phase} ({notice.progress}{wave}{failed}{restarted})"
    needed = "A person is needed. " if notice.stalled else ""
    text = f"{head}\n{needed}{notice.message}"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
