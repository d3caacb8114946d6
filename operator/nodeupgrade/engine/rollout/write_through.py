"""A KubeApi that tells informers what our own writes returned, so that no pass acts on less than its own doing."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import datetime

from nodeupgrade.api.json import Json
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.engine.rollout.reader import InformedFleet
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import ConflictError, NotFoundError, Page, Resource, WatchEvent


class WriteThrough(TypedKube):
    """Passes everything on, and what comes back to the fleet.

    After a deletion, and after a write that found something else than we believed in, the object is read once: the
    next pass then sees what is there instead of being refused again until the watch has told.
    """

    def __init__(self, kube: TypedKube, fleet: InformedFleet) -> None:
        self._kube = kube
        self._fleet = fleet

    def utcnow(self) -> datetime:
        """Wall-clock time, UTC."""
        return self._kube.utcnow()

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object."""
        return await self._kube.get(resource, name)

    async def list(
        self, resource: Resource, *, labels: Mapping[str, str] | None = None, fields: Mapping[str, str] | None = None
    ) -> list[Json]:
        """Read all objects that match."""
        return await self._kube.list(resource, labels=labels, fields=fields)

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """Read all objects page by page."""
        return self._kube.pages(resource, labels=labels)

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow what happens."""
        return self._kube.watch(resource, resource_version=resource_version, labels=labels, fields=fields)

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object."""
        async with self._looking(resource, body["metadata"]["name"]):
            created = await self._kube.create(resource, body)
        self._fleet.learn(resource, created)
        return created

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
        async with self._looking(resource, name):
            merged = await self._kube.merge(
                resource, name, patch, resource_version=resource_version, field_manager=field_manager, dry_run=dry_run
            )
        if not dry_run:
            self._fleet.learn(resource, merged)
        return merged

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace the whole status of an object."""
        async with self._looking(resource, name):
            replaced = await self._kube.replace_status(resource, name, status, resource_version=resource_version)
        self._fleet.learn(resource, replaced)
        return replaced

    async def delete(self, resource: Resource, name: str, *, uid: str | None = None) -> None:
        """Ask for an object's deletion."""
        async with self._looking(resource, name, uid):
            await self._kube.delete(resource, name, uid=uid)
        await self._look(resource, name, uid)

    async def server_version(self) -> str:
        """The API server's ``gitVersion``."""
        return await self._kube.server_version()

    @contextlib.asynccontextmanager
    async def _looking(self, resource: Resource, name: str, uid: str | None = None) -> AsyncIterator[None]:
        """Look at the object if it turns out to be another one than we believed."""
        try:
            yield
        except (ConflictError, NotFoundError):
            await self._look(resource, name, uid)
            raise

    async def _look(self, resource: Resource, name: str, uid: str | None) -> None:
        if not self._fleet.follows(resource):
            return
        with contextlib.suppress(NodeUpgradeError):
            try:
                self._fleet.learn(resource, await self._kube.get(resource, name))
            except NotFoundError:
                self._fleet.forget(resource, name, uid)
