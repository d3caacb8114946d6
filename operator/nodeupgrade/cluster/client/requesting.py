"""The KubeApi port over single requests, whoever sends them. A watch needs more: see ``client``."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Protocol

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.paths import NODE_OF_POD, has_index, path, selectors
from nodeupgrade.cluster.client.refusals import AheadError
from nodeupgrade.cluster.kube_api import (
    ACCESS_REVIEWS,
    PODS,
    ExpiredError,
    Keep,
    NotFoundError,
    Page,
    RejectedError,
    Resource,
    UnavailableError,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.text import integer

PAGE_SIZE = 500
"""Objects per page of a list, so that the size of an answer does not grow with the fleet."""

LARGEST_RECENT = 4 * 1024 * 1024
"""Bytes of a list that has no pages, some hundred pods. Parsed, it takes several times as many of memory."""

EXPIRED_LISTS = 3
"""Attempts at a list whose continue token expires before all pages are read."""

EMPTY_NAMESPACE = "kube-node-lease"
"""Kubernetes' namespace for Leases. It has no pods: listing them is a cheap way to get the newest resourceVersion."""

FEW = 1000
"""Number of pods from which they are too many to be read one by one."""

COUNTED_SECONDS = 60.0
"""How long their number is relied on."""


class Requests(Protocol):
    """Sends a request and returns the JSON of the answer."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        largest: int | None = None,
        keep: Keep | None = None,
    ) -> Json:
        """Send it; with ``largest``, read no answer that has more bytes.

        With ``keep``, the answer is a list, of whose items no more may be kept; ``largest`` is for each of them.

        Raises:
            NoClusterError, NotFoundError, ConflictError, RejectedError, UnavailableError: As in ``kube_api``.
            TooLargeError: The answer has more bytes.
        """


class RequestingKube(TypedKube):
    """Everything but watches, in terms of requests."""

    def __init__(self, requests: Requests, page_size: int | None = None) -> None:
        self._requests, self._page_size = requests, page_size
        self._few, self._counted_at, self._counting = False, -COUNTED_SECONDS, asyncio.Lock()
        self._asking: asyncio.Future[str] | None = None

    def utcnow(self) -> datetime:
        """Return the wall-clock time, UTC."""
        return datetime.now(UTC)

    async def get(self, resource: Resource, name: str) -> Json:
        return await self._requests.request("GET", path(resource, name))

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        page = await self._indexed(PODS, {NODE_OF_POD: node}, keep)
        return [*page.items]

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        """List all objects, page by page; the pods of a node in one answer, from the API server's index."""
        if recent:  # of no page size: with one, API servers before 1.31 read etcd
            asked = {"resourceVersion": "0", **selectors(labels, fields)}
            answer = await self._requests.request("GET", path(resource), query=asked, largest=LARGEST_RECENT)
            return [*_page(resource, answer)[0].items]
        indexed = labels is None and has_index(resource, fields)
        page = await (self._indexed(resource, fields) if indexed else self._whole(resource, labels, fields))
        return list(page.items)

    async def _indexed(self, resource: Resource, fields: Mapping[str, str] | None, keep: Keep | None = None) -> Page:
        """List from the API server's index, at a state no older than this call.

        That state is named: without a resourceVersion, API servers before 1.31, and later ones whose etcd cannot report
        progress (before 3.4.31 and 3.5.13), read every pod of the cluster from etcd. So do all of them with a limit.
        To ask for that state without one brings the index of the others up to it.
        Where there are few pods, that is quicker than to wait until the index has come so far, which it may not for
        minutes if no pod changes.
        """
        asked = selectors(None, fields)
        if not await self._are_few(resource):
            asked |= {"resourceVersion": await self._newest_version(), "resourceVersionMatch": "NotOlderThan"}
        try:
            (page,) = [page async for page in self._pages(resource, asked, keep)]
        except AheadError:
            return await self._whole(resource, None, fields, keep)
        return page

    async def _newest_version(self) -> str:
        """Return the newest resourceVersion of pods, as of now or later; calls of one moment share a request."""

        async def ask() -> str:
            await asyncio.sleep(0)  # let the others come
            self._asking = None  # the request goes out now, so who comes later needs another
            answer = await self._requests.request("GET", path(PODS.within(EMPTY_NAMESPACE)))
            return str(answer["metadata"]["resourceVersion"])

        if self._asking is None:
            self._asking = asyncio.ensure_future(ask())
        return await asyncio.shield(self._asking)

    async def _are_few(self, resource: Resource) -> bool:
        """Report whether the cluster has so few objects of a kind that it does not matter who reads all of them."""
        async with self._counting:
            if time.monotonic() >= self._counted_at + COUNTED_SECONDS:
                try:
                    metadata = (await self._requests.request("GET", path(resource), query={"limit": "1"}))["metadata"]
                    many = metadata.get("remainingItemCount", FEW if metadata.get("continue") else 0) >= FEW
                except RejectedError:
                    many = True
                self._few, self._counted_at = not many, time.monotonic()
            return self._few

    async def _whole(
        self,
        resource: Resource,
        labels: Mapping[str, str] | None,
        fields: Mapping[str, str] | None,
        keep: Keep | None = None,
    ) -> Page:
        """List all pages and return them as one."""
        query = {"limit": str(self._page_size or PAGE_SIZE), **selectors(labels, fields)}
        for _ in range(EXPIRED_LISTS):
            with contextlib.suppress(ExpiredError):
                pages = [page async for page in self._pages(resource, query, keep)]
                return Page(tuple(item for page in pages for item in page.items), pages[-1].resource_version)
        raise UnavailableError(f"cannot list {resource.plural} because the API server forgets pages too quickly")

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """List all objects page by page, from etcd rather than from a cache that may lag behind."""
        return self._pages(resource, {"limit": str(self._page_size or PAGE_SIZE), **selectors(labels)})

    async def _pages(
        self, resource: Resource, query: Mapping[str, str], keep: Keep | None = None
    ) -> AsyncIterator[Page]:
        asked = dict(query)
        while True:
            page, token = _page(resource, await self._requests.request("GET", path(resource), query=asked, keep=keep))
            yield page
            if not token:
                return
            asked["continue"] = token

    async def create(self, resource: Resource, body: Json) -> Json:
        return await self._requests.request("POST", path(resource), body=body)

    async def try_create(self, resource: Resource, body: Json) -> Json:
        return await self._requests.request("POST", path(resource), query={"dryRun": "All"}, body=body)

    async def may(self, verb: str, resource: Resource) -> bool:
        asked = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": resource.namespace}
        body: Json = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": {name: value for name, value in asked.items() if value}},
        }
        review = await self._requests.request("POST", path(ACCESS_REVIEWS), body=body)
        return bool(review["status"]["allowed"])

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
        if resource_version is not None:
            metadata = {**patch.get("metadata", {}), "resourceVersion": resource_version}
            patch = {**patch, "metadata": metadata}
        query = {"fieldManager": field_manager} if field_manager else {}
        query |= {"dryRun": "All"} if dry_run else {}
        where, content_type = path(resource, name), "application/merge-patch+json"
        return await self._requests.request("PATCH", where, query=query, body=patch, content_type=content_type)

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        operations = [{"op": "add", "path": "/status", "value": status}]
        if resource_version is not None:
            # Set it instead of testing it: the API server then answers 409, as for any other stale write.
            operations.append({"op": "add", "path": "/metadata/resourceVersion", "value": resource_version})
        where, content_type = f"{path(resource, name)}/status", "application/json-patch+json"
        return await self._requests.request("PATCH", where, body=operations, content_type=content_type)

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        """Set or remove one condition by a strategic merge patch, whose lists of conditions are merged by type."""
        change = {"type": kind, **({"$patch": "delete"} if condition is None else condition)}
        patch: Json = {"status": {"conditions": [change]}}
        if resource_version is not None:
            patch["metadata"] = {"resourceVersion": resource_version}
        where, content_type = f"{path(resource, name)}/status", "application/strategic-merge-patch+json"
        return await self._requests.request("PATCH", where, body=patch, content_type=content_type)

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        required = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {name: value for name, value in required.items() if value is not None}:
            body["preconditions"] = preconditions
        try:
            await self._requests.request("DELETE", path(resource, name), body=body)
        except NotFoundError:
            return

    async def server_version(self) -> str:
        return str((await self._requests.request("GET", "/version"))["gitVersion"])


def _page(resource: Resource, answer: Json) -> tuple[Page, str]:
    """Return the page of a list, and the token of the next one, if there is one.

    Raises:
        UnavailableError: It is no list, but for example what a load balancer says instead.
    """
    common = {"apiVersion": resource.api_version, "kind": resource.kind}  # the items of a list lack both
    try:
        metadata = answer["metadata"]
        items, left = answer["items"] or (), integer(metadata.get("remainingItemCount") or 0)
        page = Page(tuple({**common, **item} for item in items), metadata["resourceVersion"], left)
        return page, metadata.get("continue") or ""
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        message = f"cannot list {resource.plural} because the API server's answer is no list ({error!r})"
        raise UnavailableError(message) from error
