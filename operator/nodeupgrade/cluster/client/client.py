"""The KubeApi port, implemented against a real API server by the official library."""

import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nodeupgrade.cluster.client.paths import event, has_index, path, selectors
from nodeupgrade.cluster.client.requesting import RequestingKube
from nodeupgrade.cluster.kube_api import Resource, WatchEvent, WatchEventType
from nodeupgrade.cluster.pods import for_watch

if TYPE_CHECKING:
    from nodeupgrade.cluster.client.transport import Patience, Session, Transport

WATCH_SECONDS = 280
"""Shortest duration of a watch; the longest is twice that."""


class KubeClient(RequestingKube):
    """Client for the API server that exchanges raw JSON.

    Use it as ``async with KubeClient.open() as kube``; see ``log_in`` for the identity that it uses.
    """

    def __init__(self, transport: "Transport", page_size: int | None = None) -> None:
        super().__init__(transport, page_size)
        self._transport = transport

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        patience: "Patience | None" = None,
        answered: Callable[[str, str], None] = lambda _verb, _code: None,
        impersonated: str | None = None,
        *,
        page_size: int | None = None,
        largest: int | None = None,
    ) -> "AsyncIterator[KubeClient]":
        """Connect, and close the connections on exit; ``answered`` is called with verb and code of every answer.

        With ``impersonated``, act as that user, as far as the login may; ``session`` does not. With ``page_size``, a
        page has that many objects instead of PAGE_SIZE. With ``largest``, an answer of more bytes raises TooLargeError.

        Raises:
            NoClusterError: There is no usable kubeconfig.
        """
        # Here, so that whoever only names this class needs no library.
        from nodeupgrade.cluster.client.login import log_in  # noqa: PLC0415
        from nodeupgrade.cluster.client.transport import Patience, Transport  # noqa: PLC0415

        login = await log_in(kubeconfig, context, impersonated)
        transport = Transport(login, patience or Patience(), answered, largest)
        try:
            yield cls(transport, page_size)
        finally:
            await transport.close()

    def session(self) -> "Session":
        """Open a session with the same login, for a library that does its own HTTP. The client closes it."""
        return self._transport.session()

    def only_while(self, may_write: Callable[[], bool]) -> None:
        """Ask before every write from now on; while the answer is no, writes raise NotLeadingError."""
        self._transport.may_write = may_write

    async def check_access(self, resource: Resource) -> None:
        """Check that a kind can be listed and watched.

        Raises:
            NotFoundError: There is no such kind.
            ForbiddenError: Listing or watching it is forbidden.
            UnavailableError: The API server does not answer.
        """
        listed = await self._transport.request("GET", path(resource), query={"limit": "1"})
        version = listed["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        async with contextlib.aclosing(self._transport.lines(path(resource), query)) as lines:
            async for _ in lines:
                return

    def server_time(self) -> datetime:
        """Return the API server's time, UTC, whatever the own clock says."""
        return self._transport.server_time()

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        if not resource_version and labels is None and has_index(resource, fields):
            # Without a resourceVersion, the API server would read everything from etcd here too.
            page = await self._indexed(resource, fields, for_watch)
            for item in page.items:
                yield WatchEvent(WatchEventType.ADDED, item)
            resource_version = page.resource_version
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            # Spread out the ends of watches that all began at the same moment.
            "timeoutSeconds": str(WATCH_SECONDS + random.randrange(WATCH_SECONDS)),  # noqa: S311 - no secret
            **selectors(labels, fields),
        }
        async with contextlib.aclosing(self._transport.lines(path(resource), query)) as lines:
            async for line in lines:
                yield event(resource, line)
