"""Notices by HTTP: as plain JSON, as messages for Slack and what understands them, and as CloudEvents."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import assert_never

import aiohttp
import tenacity

from nodeupgrade.api.configuration import NoticeFormat, Receiver
from nodeupgrade.api.json import Json, timestamp, to_json
from nodeupgrade.api.wording import counted, printable
from nodeupgrade.domain.errors import Transient
from nodeupgrade.domain.rollout.events import Notice
from nodeupgrade.ports.health import DeliveryError, NoticeSender

# Delivers notices to webhooks.

REQUEST_SECONDS = 10
ATTEMPTS = 3
_WORTH_RETRYING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Webhooks(NoticeSender):
    """Sends notices by HTTP POST; a repeated one has the same ID.

    Args:
        pause: Seconds before the second attempt, doubled each time.
    """

    def __init__(self, receivers: Sequence[Receiver], *, pause: float = 1.0) -> None:
        self._receivers = {receiver.name: receiver for receiver in receivers}
        self._pause = pause

    async def send(self, receiver: str, notice: Notice) -> None:
        """Deliver a notice, in several attempts if the receiver is busy or cannot be reached."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Transient),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=self._pause, max=30),
            reraise=True,
        )
        try:
            await retrying(_post, self._receivers[receiver], notice)
        except Transient as error:
            raise DeliveryError(f"receiver {receiver} does not take notices: {error}") from None


async def _post(receiver: Receiver, notice: Notice) -> None:
    """Send one request. Redirects are not followed, since only the configuration says where notices go."""
    content_type, body = rendered(notice, receiver.format)
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    try:
        headers = {"Content-Type": content_type, "User-Agent": "nodeupgrade", **_login(receiver)}
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(receiver.url, data=json.dumps(body), headers=headers, allow_redirects=False) as response,
        ):
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Some of these errors repeat the URL, which may be a secret.
        raise Transient(f"no answer ({type(error).__name__})") from None
    if 200 <= status < 300:
        return
    if status in _WORTH_RETRYING:
        raise Transient(f"it answers {status}")
    raise DeliveryError(f"receiver {receiver.name} refuses notices: it answers {status}")


def _login(receiver: Receiver) -> dict[str, str]:
    if receiver.bearer_token_file is None:
        return {}
    return {"Authorization": f"Bearer {Path(receiver.bearer_token_file).read_text(encoding='ascii').strip()}"}


# How a notice is written for a receiver.

EVENT_TYPE = "dev.nodeupgrade.rollout.v1"


def rendered(notice: Notice, form: NoticeFormat) -> tuple[str, Json]:
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
