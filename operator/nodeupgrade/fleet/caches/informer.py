"""An informer: keeps a cache of one kind up to date by list and watch, and relists when the watch cannot continue.

No behaviour of the API server ends it: every error is reported and followed by a retry with jittered exponential
back-off. Nothing depends on having received every event: everything is relisted periodically.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.cluster.kube_api import ExpiredError, KubeApi, Resource, UnavailableError
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.caches.object_cache import Delta, ObjectCache, Reduced, T
from nodeupgrade.text import number

RELIST_SECONDS = 900.0
"""Interval between periodic lists, give or take a fifth."""

PATIENCE_SECONDS = 1.0
"""How long to wait at most for the watch to deliver a resourceVersion that is known to exist before listing."""

LISTED_PER_SECOND, SHORTEST_PATIENCE_SECONDS = 1000, 0.1
"""Objects that an API server lists in about a second: listing few of them is quicker than waiting for the watch."""

LIST_SECONDS = 60.0
"""How long a caller waits for a fresh list."""

SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

SHORTEST_WATCH_SECONDS = 5.0
"""A watch that ends sooner without an event counts as a failure, so that it is not restarted in a tight loop."""

SILENT_SECONDS = 150.0
"""Silence, for two bookmarks, that ends in a list: a watch says nothing of older versions, as of a restored backup."""

GIVE_UP_WATCHING = 4
"""Failures in a row after which everything is relisted: the resourceVersion may be one that cannot be watched from."""


class Relist(StrEnum):
    """Why all objects of a kind are listed."""

    START = "start"
    EXPIRED = "expired"
    """The resourceVersion of the watch is too old (HTTP 410)."""
    ERROR = "error"
    BEHIND = "behind"
    """A caller knows a newer resourceVersion than the watch has delivered."""
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock and intervals, in seconds; tests replace them so as not to wait."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    relist: float = RELIST_SECONDS
    patience: float = PATIENCE_SECONDS
    list_timeout: float = LIST_SECONDS


class Informer(Generic[T]):
    """Lists and watches one kind, and caches its objects.

    Args:
        kube: Where to list and watch.
        resource: The kind, optionally limited to one namespace.
        view: Reduces an object to what is cached; see ObjectCache.
        labels: Only objects with these labels.
        on_change: Called for every change; must not block.
        on_error: Called with the error when listing or watching fails.

    Attributes:
        relists: number of lists, by reason.
    """

    def __init__(
        self,
        kube: KubeApi,
        resource: Resource,
        view: Callable[[Json], T],
        *,
        labels: Mapping[str, str] | None = None,
        on_change: Callable[[Delta[T]], None] = lambda _delta: None,
        on_error: Callable[[str], None] = lambda _problem: None,
        timing: Timing | None = None,
    ) -> None:
        self.resource = resource
        self.relists: Counter[Relist] = Counter()
        self._kube, self._labels = kube, labels
        self._on_change, self._on_error = on_change, on_error
        self._timing = timing or Timing()
        self._cache: ObjectCache[T] = ObjectCache(view)
        self._begun = self._completed = self._failures = 0
        self._received_at = self._timing.monotonic()
        self._relist_requested, self._progress = asyncio.Event(), asyncio.Event()
        self._awaited = 0  # the newest resourceVersion for which a list was requested since the last one began

    @property
    def synced(self) -> bool:
        """Whether a first list has completed."""
        return self._completed > 0

    @property
    def silence(self) -> float:
        """Seconds since the API server last sent anything, bookmarks included."""
        return self._timing.monotonic() - self._received_at

    @property
    def views(self) -> dict[str, T]:
        """The cached views by name; a copy."""
        return dict(self._cache.views)

    @property
    def unreadable(self) -> dict[str, str]:
        """By name, why objects cannot be parsed; a copy."""
        return dict(self._cache.unreadable)

    def learn(self, body: Json) -> None:
        """Store the response to one of our own writes."""
        self._notify(self._cache.learn(body))

    def forget(self, name: str, uid: str | None) -> None:
        """Remove an object that is gone; without ``uid``, the cached one of that name."""
        self._notify(self._cache.forget(name, uid))

    async def at_least(self, version: int) -> None:
        """Wait until the cache is at least as new as a resourceVersion; list if the watch does not get there in time.

        Raises:
            UnavailableError: The list did not complete in time either.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience()):
                return await self._until(version, self._begun + 1)
        self._awaited = max(self._awaited, version)
        self._relist_requested.set()
        try:
            async with asyncio.timeout(self._timing.list_timeout):
                await self._until(version, self._begun + 1)
        except TimeoutError:
            message = f"cannot plan because {self.resource.plural} cannot be listed; see the log for why"
            raise UnavailableError(message) from None

    def _patience(self) -> float:
        """Return how long to wait for the watch: the watch of a kind that seldom changes delivers nothing for long."""
        listing = len(self._cache.views) / LISTED_PER_SECOND
        return min(self._timing.patience, max(SHORTEST_PATIENCE_SECONDS, listing))

    async def run(self) -> None:
        """List and watch until cancelled."""
        why = Relist.START
        while True:
            try:
                await self._list(why)
                why = await self._follow()
            except NodeUpgradeError as error:
                why = Relist.EXPIRED if isinstance(error, ExpiredError) else Relist.ERROR
                await self._pause(error)

    async def _until(self, version: int, turn: int) -> None:
        """Wait for a resourceVersion, or for the list with number ``turn``: one begun after now includes everything."""
        while not (self.synced and self._cache.version >= version) and self._completed < turn:
            await self._progress.wait()

    async def _list(self, why: Relist) -> None:
        """List and store all objects; each page is reduced before the next is read, since whole objects are large."""
        self._relist_requested.clear()
        self._awaited = 0
        self.relists[why] += 1
        self._begun += 1
        self._cache.begin()
        turn, version, listed = self._begun, 0, dict[str, Reduced[T]]()
        async for page in self._kube.pages(self.resource, labels=self._labels):
            if (found := number(page.resource_version)) is None:
                raise MalformedObjectError("metadata.resourceVersion", f"{page.resource_version!r} is not a number")
            version = found
            listed |= {reduced.name: reduced for reduced in map(self._cache.reduce, page.items)}
            self._deliver([])
        if version >= self._awaited:  # whoever has requested a list since gets this one
            self._relist_requested.clear()
        self._completed = turn
        self._deliver(self._cache.replace(listed, version))

    async def _follow(self) -> Relist:
        """Watch until there is a reason to relist, and return it; a single broken connection is none."""
        relist_at = self._timing.monotonic() + self._timing.relist * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        while not self._relist_requested.is_set():
            if (left := relist_at - self._timing.monotonic()) <= 0 or self.silence > SILENT_SECONDS:
                return Relist.PERIODIC
            try:
                await self._watch(left)
            except UnavailableError as error:
                await self._pause(error)
                if self._failures >= GIVE_UP_WATCHING:
                    return Relist.ERROR
        return Relist.BEHIND

    async def _watch(self, seconds: float) -> None:
        """Watch once: until the watch ends, for at most ``seconds``, or until a list is requested."""
        began, before = self._timing.monotonic(), self._cache.version
        watching, relist = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._relist_requested.wait())
        try:
            await asyncio.wait({watching, relist}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                return
            watching.result()
        finally:
            for each in (watching, relist):
                each.cancel()
            await asyncio.gather(watching, relist, return_exceptions=True)
        if self._cache.version == before and self._timing.monotonic() - began < SHORTEST_WATCH_SECONDS:
            raise UnavailableError(f"cannot watch {self.resource.plural} because the watch ends at once")

    async def _receive(self) -> None:
        version = str(self._cache.version)
        events = self._kube.watch(self.resource, resource_version=version, labels=self._labels)
        async with contextlib.aclosing(events):
            async for event in events:
                self._failures = 0
                self._deliver(self._cache.apply(event))

    def _deliver(self, deltas: Iterable[Delta[T]]) -> None:
        self._received_at = self._timing.monotonic()
        self._notify(deltas)
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    def _notify(self, deltas: Iterable[Delta[T]]) -> None:
        for delta in deltas:
            self._on_change(delta)

    async def _pause(self, error: NodeUpgradeError) -> None:
        """Report an error and back off: longer with every failure since the last event, or as the API server asks."""
        self._on_error(str(error))
        ceiling = min(LONGEST_BACKOFF_SECONDS, SHORTEST_BACKOFF_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        requested = error.after if isinstance(error, UnavailableError) else 0.0
        await self._timing.sleep(max(requested, ceiling * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter
