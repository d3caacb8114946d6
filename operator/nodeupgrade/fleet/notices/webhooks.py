"""Delivers notices to webhooks."""

import json
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import tenacity

from nodeupgrade.api.configuration import Receiver
from nodeupgrade.errors import Transient
from nodeupgrade.fleet.notices.formats import render
from nodeupgrade.fleet.notices.notice import DeliveryError, Notice, NoticeSender
from nodeupgrade.text import trimmed

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
    content_type, body = render(notice, receiver.format)
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
    return {"Authorization": f"Bearer {trimmed(Path(receiver.bearer_token_file).read_bytes().decode('ascii'))}"}
