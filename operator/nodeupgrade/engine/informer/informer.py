"""Keeps what is known of one kind up to date: list, watch, list again when the watch cannot go on. For ever.

Nothing that an API server does ends it: every error is reported and followed by another attempt, after a delay that
grows and is different each time. Nothing depends on having been told: everything is listed anew now and then.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.engine.informer.object_cache import Delta, ObjectCache, Reduced
from nodeupgrade.ports.kube import ExpiredError, KubeApi, Resource, UnavailableError

T = TypeVar("T")

RELIST_SECONDS = 900.0
"""Time after which everything is listed anew although nothing is wrong, give or take a fifth."""

PATIENCE_SECONDS = 1.0
"""How long the watch may take to bring what is known to exist, before it is listed."""

LIST_SECONDS = 60.0
"""How long whoever needs a fresh list waits for it."""

SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

SHORTEST_WATCH_SECONDS = 5.0
"""A watch that ends sooner and has told nothing is a failure, lest it be begun anew without a pause."""

GIVE_UP_WATCHING = 4
"""Failures in a row after which everything is listed: it may be this very position that cannot be gone on from."""


class Relist(StrEnum):
    """Why everything of a kind is listed."""

    START = "start"
    EXPIRED = "expired"
    """The API server has forgotten where the watch was (HTTP 410)."""
    ERROR = "error"
    BEHIND = "behind"
    """Somebody knows of something that the watch has not told."""
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock in seconds and how to wait, so that tests need not; and when a list is too old."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    relist: float = RELIST_SECONDS
    patience: float = PATIENCE_SECONDS
    list_timeout: float = LIST_SECONDS


class Informer(Generic[T]):
    """Follows one kind.

    Args:
        kube: Where to list and watch.
        resource: The kind, possibly in one namespace.
        view: Reduces an object to what is kept; see ObjectCache.
        labels: Only objects with these labels.
        changed: Hears of every change, at once; must not block.
        troubled: Hears why nothing can be listed or watched just now.

    Attributes:
        relists: how often everything was listed, by reason.
    """

    def __init__(
        self,
        kube: KubeApi,
        resource: Resource,
        view: Callable[[Json], T],
        *,
        labels: Mapping[str, str] | None = None,
        changed: Callable[[Delta[T]], None] = lambda _delta: None,
        troubled: Callable[[str], None] = lambda _problem: None,
        timing: Timing | None = None,
    ) -> None:
        self.resource = resource
        self.relists: Counter[Relist] = Counter()
        self._kube, self._labels = kube, labels
        self._changed, self._troubled = changed, troubled
        self._timing = timing or Timing()
        self._cache: ObjectCache[T] = ObjectCache(view)
        self._begun = self._completed = self._failures = 0
        self._heard_at = self._timing.monotonic()
        self._asked, self._progress = asyncio.Event(), asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether everything was listed once."""
        return self._completed > 0

    @property
    def silence(self) -> float:
        """Seconds since the API server last told anything, be it that nothing happened."""
        return self._timing.monotonic() - self._heard_at

    @property
    def views(self) -> dict[str, T]:
        """What is known now, by name; a copy."""
        return dict(self._cache.views)

    @property
    def unreadable(self) -> dict[str, str]:
        """By name, why objects cannot be read; a copy."""
        return dict(self._cache.unreadable)

    def get(self, name: str) -> T | None:
        """Return what is known of one object."""
        return self._cache.views.get(name)

    def learn(self, body: Json) -> None:
        """Take over the answer to a write of ours."""
        self._tell(self._cache.learn(body))

    def forget(self, name: str, uid: str | None) -> None:
        """Take note that an object is gone; without ``uid``, the one that is known by that name."""
        self._tell(self._cache.forget(name, uid))

    async def at_least(self, version: int) -> None:
        """Wait until everything up to a resourceVersion is known; list if the watch does not bring it in time.

        Raises:
            UnavailableError: Neither happened.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.patience):
                return await self._until(version, self._begun + 1)
        self._asked.set()
        try:
            async with asyncio.timeout(self._timing.list_timeout):
                await self._until(version, self._begun + 1)
        except TimeoutError:
            message = f"cannot plan because {self.resource.plural} cannot be listed; see the log for why"
            raise UnavailableError(message) from None

    async def run(self) -> None:
        """Follow for ever."""
        why = Relist.START
        while True:
            try:
                await self._list(why)
                why = await self._follow()
            except ExpiredError as error:
                why = Relist.EXPIRED
                await self._pause(error)
            except NodeUpgradeError as error:
                why = Relist.ERROR
                await self._pause(error)

    async def _until(self, version: int, turn: int) -> None:
        """Wait for a version to be known, or for a list that was begun after now: it knows whatever there is."""
        while not (self.synced and self._cache.version >= version) and self._completed < turn:
            await self._progress.wait()

    async def _list(self, why: Relist) -> None:
        """Take over everything; each page is reduced before the next is read, since whole objects are large."""
        self._asked.clear()
        self.relists[why] += 1
        self._begun += 1
        turn, version, listed = self._begun, 0, dict[str, Reduced[T]]()
        async for page in self._kube.pages(self.resource, labels=self._labels):
            version = _number(page.resource_version)
            listed |= {reduced.name: reduced for reduced in map(self._cache.reduce, page.items)}
            self._hear([])
        self._completed = turn
        self._hear(self._cache.replace(listed, version))

    async def _follow(self) -> Relist:
        """Watch until there is a reason to list again; a connection that breaks now and then is none."""
        relist_at = self._timing.monotonic() + self._timing.relist * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        while not self._asked.is_set():
            if (left := relist_at - self._timing.monotonic()) <= 0:
                return Relist.PERIODIC
            try:
                await self._watch(left)
            except UnavailableError as error:
                await self._pause(error)
                if self._failures >= GIVE_UP_WATCHING:
                    return Relist.ERROR
        return Relist.BEHIND

    async def _watch(self, seconds: float) -> None:
        """Watch once, for so long at most, and only until somebody asks for a list."""
        began, before = self._timing.monotonic(), self._cache.version
        watching, asked = asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({watching, asked}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                return
            watching.result()
        finally:
            for each in (watching, asked):
                each.cancel()
            await asyncio.gather(watching, asked, return_exceptions=True)
        if self._cache.version == before and self._timing.monotonic() - began < SHORTEST_WATCH_SECONDS:
            raise UnavailableError(f"cannot watch {self.resource.plural} because the watch ends at once")

    async def _listen(self) -> None:
        version = str(self._cache.version)
        events = self._kube.watch(self.resource, resource_version=version, labels=self._labels)
        async with contextlib.aclosing(events):
            async for event in events:
                self._failures = 0
                self._hear(self._cache.apply(event))

    def _hear(self, deltas: Iterable[Delta[T]]) -> None:
        self._heard_at = self._timing.monotonic()
        self._tell(deltas)
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    def _tell(self, deltas: Iterable[Delta[T]]) -> None:
        for delta in deltas:
            self._changed(delta)

    async def _pause(self, error: NodeUpgradeError) -> None:
        """Wait longer with every failure since the watch last told anything, or as long as the API server asks."""
        self._troubled(str(error))
        ceiling = min(LONGEST_BACKOFF_SECONDS, SHORTEST_BACKOFF_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        asked = error.after if isinstance(error, UnavailableError) else 0.0
        await self._timing.sleep(max(asked, ceiling * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter


def _number(version: str) -> int:
    if not version.isdecimal():
        raise MalformedObjectError("metadata.resourceVersion", f"{version!r} is not a number")
    return int(version)
