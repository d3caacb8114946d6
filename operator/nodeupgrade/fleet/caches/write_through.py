"""A KubeApi that updates the caches with the responses to our own writes, so that the next pass sees them."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from datetime import datetime

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import ConflictError, NotFoundError, Page, Resource, UnavailableError, WatchEvent
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.caches.fleet_source import InformedFleet


class WriteThrough(TypedKube):
    """Delegates to another TypedKube, and stores the results of writes in the fleet's caches.

    After a deletion, and after a write that failed with a conflict or because the object is gone, or that was not
    answered, the object is read once. The next pass then sees the current state instead of failing again until the
    watch catches up.
    """

    def __init__(self, kube: TypedKube, fleet: InformedFleet) -> None:
        self._kube = kube
        self._fleet = fleet

    def utcnow(self) -> datetime:
        return self._kube.utcnow()

    async def get(self, resource: Resource, name: str) -> Json:
        return await self._kube.get(resource, name)

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        return await self._kube.list(resource, labels=labels, fields=fields, recent=recent)

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        return self._kube.pages(resource, labels=labels)

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        return self._kube.watch(resource, resource_version=resource_version, labels=labels, fields=fields)

    async def create(self, resource: Resource, body: Json) -> Json:
        return await self._learnt(resource, body["metadata"]["name"], self._kube.create(resource, body))

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
        write = self._kube.merge(
            resource, name, patch, resource_version=resource_version, field_manager=field_manager, dry_run=dry_run
        )
        return await self._learnt(resource, name, write, dry_run=dry_run)

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        write = self._kube.replace_status(resource, name, status, resource_version=resource_version)
        return await self._learnt(resource, name, write)

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        write = self._kube.set_condition(resource, name, kind, condition, resource_version=resource_version)
        return await self._learnt(resource, name, write)

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        try:
            await self._kube.delete(resource, name, uid=uid, resource_version=resource_version)
        except (ConflictError, NotFoundError, UnavailableError):
            await self._refresh(resource, name, uid)
            raise
        await self._refresh(resource, name, uid)

    async def server_version(self) -> str:
        return await self._kube.server_version()

    async def _learnt(self, resource: Resource, name: str, write: Awaitable[Json], *, dry_run: bool = False) -> Json:
        """Store the result of a write; refresh if the object has changed or is gone, or if no answer came."""
        try:
            written = await write
        except (ConflictError, NotFoundError, UnavailableError):
            await self._refresh(resource, name, None)
            raise
        if not dry_run:
            self._fleet.learn(resource, written)
        return written

    async def _refresh(self, resource: Resource, name: str, uid: str | None) -> None:
        if not self._fleet.doubt(resource):
            return
        with contextlib.suppress(NodeUpgradeError):
            try:
                self._fleet.learn(resource, await self._kube.get(resource, name))
            except NotFoundError:
                self._fleet.forget(resource, name, uid)
