"""The fault proxy: the API server as one operator sees it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from e2e.fleet_faults.weather import Fault, Weather
from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import (
    EVENTS,
    LEASES,
    ExpiredError,
    NotFoundError,
    NotLeadingError,
    Page,
    RejectedError,
    Resource,
    UnavailableError,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME
from tests.doubles.kube import InMemoryKube

T = TypeVar("T")
LONGEST_PAUSE = 60.0


class Died(Exception):
    """The operator's process is gone; nothing that it still wants happens."""


@dataclass(eq=False)
class Proxy(TypedKube):
    """Passes calls of one operator on, or does to them what the weather says."""

    kube: InMemoryKube
    weather: Weather
    namespace: str
    fenced: bool  # whether the API server compares writes with the Lease, as from Kubernetes 1.30 on
    identity: str = ""  # of the operator, as the Lease has it
    may_write: Callable[[], bool] = lambda: True  # asked before every write is sent, as the real client does
    dead: bool = False  # whether the operator has died
    _running: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._running.set()

    def utcnow(self) -> datetime:
        """Wall-clock time, UTC."""
        return self.kube.utcnow()

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object."""
        return await self._read(resource, lambda: self.kube.get(resource, name))

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        """List objects."""
        return await self._read(resource, lambda: self.kube.list(resource, labels=labels, fields=fields, recent=recent))

    async def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """List objects page by page."""
        await self._arrive(resource)
        async for page in self.kube.pages(resource, labels=labels):
            yield page

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch objects: events come late, twice, or not at all."""
        await self._arrive(resource)
        if self.weather.strikes(Fault.WATCH_ENDS, 0.1):
            raise ExpiredError(f"cannot watch {resource.plural} because {resource_version} is too old")
        events = self.kube.watch(resource, resource_version=resource_version, labels=labels, fields=fields)
        async with contextlib.aclosing(events):
            async for event in events:
                await self._running.wait()
                if self.weather.outage or resource.plural in self.weather.gone or self.dead:
                    return
                if self.weather.strikes(Fault.WATCH_ENDS, 0.02):
                    return
                if event.change is not WatchEventType.BOOKMARK and self.weather.strikes(Fault.LOST_EVENTS, 0.03):
                    continue
                if self.weather.strikes(Fault.LATE_EVENTS, 0.3):
                    await asyncio.sleep(self.weather.chance.uniform(0, 8))
                yield event
                if self.weather.strikes(Fault.TWICE_TOLD, 0.1):
                    yield event

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object."""
        name = body["metadata"]["name"]
        return await self._write(resource, name, lambda: self.kube.create(resource, body))

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
        return await self._write(
            resource,
            name,
            lambda: self.kube.merge(
                resource, name, patch, resource_version=resource_version, field_manager=field_manager, dry_run=dry_run
            ),
        )

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace an object's status."""
        do = self.kube.replace_status
        return await self._write(resource, name, lambda: do(resource, name, status, resource_version=resource_version))

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        """Set or remove one condition."""
        do = self.kube.set_condition
        return await self._write(
            resource, name, lambda: do(resource, name, kind, condition, resource_version=resource_version)
        )

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Delete an object."""
        do = self.kube.delete
        await self._write(resource, name, lambda: do(resource, name, uid=uid, resource_version=resource_version))

    async def server_version(self) -> str:
        """The API server's version."""
        return await self.kube.server_version()

    async def _read(self, resource: Resource, do: Callable[[], Awaitable[T]]) -> T:
        await self._arrive(resource)
        return await do()

    async def _arrive(self, resource: Resource) -> None:
        """Take a request to the API server."""
        await asyncio.sleep(0.01)
        await self._running.wait()
        if self.dead:
            raise Died
        if self.weather.outage:
            await asyncio.sleep(2)
            raise UnavailableError("nobody answers")
        if self.weather.strikes(Fault.BUSY, 0.05):
            raise UnavailableError("too busy", after=self.weather.chance.choice((0.0, 1.0, 5.0)))
        if resource.plural in self.weather.gone:
            raise NotFoundError(f"cannot find the kind {resource.plural}")

    async def _write(self, resource: Resource, name: str, do: Callable[[], Awaitable[T]]) -> T:
        lease, event = resource.plural == LEASES.plural, resource.plural == EVENTS.plural
        await self._arrive(resource)
        if not lease and not self.may_write():
            raise NotLeadingError("this operator does not lead")
        if lease or event:
            return await do()
        if self.weather.strikes(Fault.DIES_BEFORE, 0.02):
            self.dead = True
            raise Died
        if self.weather.strikes(Fault.PAUSED, 0.03):
            late = asyncio.ensure_future(self._pause(name, do))
            late.add_done_callback(lambda task: task.cancelled() or task.exception())
            return await asyncio.shield(late)
        return await self._carried_out(name, do)

    async def _pause(self, name: str, do: Callable[[], Awaitable[T]]) -> T:
        """Stop the whole process after it has asked whether it leads; the write goes out when it wakes."""
        self._running.clear()
        await asyncio.sleep(self.weather.chance.uniform(1, LONGEST_PAUSE))
        self._running.set()
        return await self._carried_out(name, do)

    async def _carried_out(self, name: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do at the API server what is asked for, and answer."""
        if self.fenced and not self._holds():
            raise NotLeadingError("only the operator that leads may write")
        if any(node in name for node in self.weather.refused):
            raise RejectedError("admission webhook denied the request")
        result = await do()
        if self.weather.strikes(Fault.DIES_AFTER, 0.02):
            self.dead = True
            raise Died
        if self.weather.strikes(Fault.ANSWER_LOST, 0.05):
            raise UnavailableError("the answer is lost")
        return result

    def _holds(self) -> bool:
        """Report whether the fence lets this operator write; without a Lease it lets all (operator-fence.yaml)."""
        lease = self.kube._objects.get((LEASES.plural, self.namespace, LEASE_NAME))
        return lease is None or str((lease.get("spec") or {}).get("holderIdentity")) == self.identity
