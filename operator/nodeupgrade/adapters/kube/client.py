"""The KubeApi port over a real API server."""

import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from nodeupgrade.adapters.kube.transport import AheadError, Patience, Session, Transport
from nodeupgrade.adapters.kube.words import event, has_index, path, selector
from nodeupgrade.api.json import Json
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import (
    ExpiredError,
    NotFoundError,
    Page,
    Resource,
    UnavailableError,
    WatchEvent,
    WatchEventType,
)

PAGE_SIZE = 500
"""Objects per page of a list, so that no answer grows with the fleet."""

EXPIRED_LISTS = 3
"""How often a list is begun anew when its pages were forgotten before they were read."""

WATCH_SECONDS = 280
"""Shortest life of a watch; the longest is twice as long."""

EMPTY_NAMESPACE = "kube-node-lease"
"""Kubernetes' own, for Leases: a list of its pods costs nothing, and says what the newest resourceVersion is."""

WITHOUT_INDEX_SECONDS = 60.0
"""How long the index is not asked once it has lagged behind: a quiet cluster's cache may hear of nothing for minutes,
and is waited for three seconds each time."""


class KubeClient(TypedKube):
    """Speaks to the API server in raw JSON.

    Use it as ``async with KubeClient.open() as kube``; see ``Transport.connect`` for whose identity it uses.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._index_lags_until = 0.0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        patience: Patience | None = None,
        answered: Callable[[str, str], None] = lambda _verb, _code: None,
    ) -> "AsyncIterator[KubeClient]":
        """Connect, and close the connections at the end; ``answered`` hears verb and code of every answer.

        Raises:
            NoClusterError: There is no usable kubeconfig.
        """
        transport = await Transport.connect(kubeconfig, context, patience or Patience(), answered)
        try:
            yield cls(transport)
        finally:
            await transport.close()

    def session(self) -> Session:
        """Open a session with the same login, for a library that speaks HTTP itself; it is closed with the client."""
        return self._transport.session()

    async def check_access(self, resource: Resource) -> None:
        """Look whether a kind may be listed and watched.

        Raises:
            NotFoundError: There is no such kind.
            ForbiddenError: It may not be.
            UnavailableError: The API server does not answer.
        """
        listed = await self._transport.request("GET", path(resource), query={"limit": "1"})
        version = listed["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        async with contextlib.aclosing(self._transport.lines(path(resource), query)) as lines:
            async for _ in lines:
                return

    def utcnow(self) -> datetime:
        """Wall-clock time, UTC."""
        return datetime.now(UTC)

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object."""
        return cast("Json", await self._transport.request("GET", path(resource, name)))

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Json]:
        """Read all objects, page by page; the pods of a node in one answer, from the API server's index."""
        indexed = labels is None and has_index(resource, fields)
        page = await (self._indexed(resource, fields) if indexed else self._whole(resource, labels, fields))
        return list(page.items)

    async def _indexed(self, resource: Resource, fields: Mapping[str, str] | None) -> Page:
        """Ask the index for a state that is no older than the question.

        A list with a limit, or one that names no resourceVersion, passes by the index of API servers before 1.31: they
        read every pod of the cluster from etcd.
        """
        if time.monotonic() < self._index_lags_until:
            return await self._whole(resource, None, fields)
        here = path(resource.within(EMPTY_NAMESPACE))
        now = await self._transport.request("GET", here, query={"limit": "1"})
        query = {
            "fieldSelector": selector(fields or {}),
            "resourceVersion": now["metadata"]["resourceVersion"],
            "resourceVersionMatch": "NotOlderThan",
        }
        try:
            (page,) = [page async for page in self._pages(resource, query)]
        except AheadError:
            self._index_lags_until = time.monotonic() + WITHOUT_INDEX_SECONDS
            return await self._whole(resource, None, fields)
        return page

    async def _whole(
        self, resource: Resource, labels: Mapping[str, str] | None, fields: Mapping[str, str] | None
    ) -> Page:
        """Read all pages as one."""
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = selector(labels)
        if fields:
            query["fieldSelector"] = selector(fields)
        for _ in range(EXPIRED_LISTS):
            with contextlib.suppress(ExpiredError):
                pages = [page async for page in self._pages(resource, query)]
                return Page(tuple(item for page in pages for item in page.items), pages[-1].resource_version)
        raise UnavailableError(f"cannot list {resource.plural} because the API server forgets pages too quickly")

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """Read all objects page by page, from etcd rather than from a cache that may lag behind."""
        query = {"limit": str(PAGE_SIZE)} | ({"labelSelector": selector(labels)} if labels else {})
        return self._pages(resource, query)

    async def _pages(self, resource: Resource, query: Mapping[str, str]) -> AsyncIterator[Page]:
        asked = dict(query)
        while True:
            answer = await self._transport.request("GET", path(resource), query=asked)
            # The items of a list lack what the list says once for all of them.
            common = {"apiVersion": resource.api_version, "kind": resource.kind}
            yield Page(tuple({**common, **item} for item in answer["items"]), answer["metadata"]["resourceVersion"])
            if not (token := answer["metadata"].get("continue")):
                return
            asked["continue"] = token

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow what happens to all objects, until the API server ends it after some minutes."""
        if not resource_version and labels is None and has_index(resource, fields):
            # Without a resourceVersion, too, API servers would read everything from etcd.
            page = await self._indexed(resource, fields)
            for item in page.items:
                yield WatchEvent(WatchEventType.ADDED, item)
            resource_version = page.resource_version
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            # Not all at the same moment, since all began at the same moment.
            "timeoutSeconds": str(WATCH_SECONDS + random.randrange(WATCH_SECONDS)),  # noqa: S311 - no secret
        }
        if labels:
            query["labelSelector"] = selector(labels)
        if fields:
            query["fieldSelector"] = selector(fields)
        async with contextlib.aclosing(self._transport.lines(path(resource), query)) as lines:
            async for line in lines:
                yield event(resource, line)

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object."""
        return cast("Json", await self._transport.request("POST", path(resource), body=body))

    async def merge(
        self,
        resource: Resource,
        name: str,
        patch: Json,
        *,
        resource_version: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Merge a patch into an object."""
        if resource_version is not None:
            metadata = {**patch.get("metadata", {}), "resourceVersion": resource_version}
            patch = {**patch, "metadata": metadata}
        query = {"fieldManager": field_manager} if field_manager else {}
        query |= {"dryRun": "All"} if dry_run else {}
        where, content_type = path(resource, name), "application/merge-patch+json"
        answer = await self._transport.request("PATCH", where, query=query, body=patch, content_type=content_type)
        return cast("Json", answer)

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace the whole status of an object."""
        operations = [{"op": "add", "path": "/status", "value": status}]
        if resource_version is not None:
            # Setting it, not testing it: the API server then answers 409 as for any other stale write.
            operations.append({"op": "add", "path": "/metadata/resourceVersion", "value": resource_version})
        where, content_type = f"{path(resource, name)}/status", "application/json-patch+json"
        return cast("Json", await self._transport.request("PATCH", where, body=operations, content_type=content_type))

    async def delete(self, resource: Resource, name: str, *, uid: str | None = None) -> None:
        """Ask for an object's deletion."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self._transport.request("DELETE", path(resource, name), body=body)
        except NotFoundError:
            return

    async def server_version(self) -> str:
        """The API server's ``gitVersion``."""
        return str((await self._transport.request("GET", "/version"))["gitVersion"])
