"""A cache of the objects of one kind, fed by lists, watches and our own writes in any order.

Every method relies on one rule: resourceVersions of one kind are numbers that increase with every write. So an object
is never replaced by an older version of itself, and outdated input does not bring back a deleted one.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, assert_never

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.cluster.kube_api import ExpiredError, KubeApi, Resource, UnavailableError, WatchEvent, WatchEventType
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.caches.informer import (
    GIVE_UP_WATCHING,
    LISTED_PER_SECOND,
    LONGEST_BACKOFF_SECONDS,
    SHORTEST_BACKOFF_SECONDS,
    SHORTEST_PATIENCE_SECONDS,
    SHORTEST_WATCH_SECONDS,
    Relist,
    T,
    Timing,
)


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """A change of a cached object; None stands for one that does not exist or cannot be parsed."""

    before: T | None
    after: T | None


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
            except ExpiredError as error:
                why = Relist.EXPIRED
                await self._pause(error)
            except NodeUpgradeError as error:
                why = Relist.ERROR
                await self._pause(error)

    async def _until(self, version: int, turn: int) -> None:
        """Wait for a resourceVersion, or for the list with number ``turn``: one begun after now includes everything."""
        while not (self.synced and self._cache.version >= version) and self._completed < turn:
            await self._progress.wait()

    async def _list(self, why: Relist) -> None:
        """List and store all objects; each page is reduced before the next is read, since whole objects are large."""
        self._relist_requested.clear()
        self.relists[why] += 1
        self._begun += 1
        turn, version, listed = self._begun, 0, dict[str, Reduced[T]]()
        async for page in self._kube.pages(self.resource, labels=self._labels):
            version = _number(page.resource_version)
            listed |= {reduced.name: reduced for reduced in map(self._cache.reduce, page.items)}
            self._deliver([])
        self._completed = turn
        self._deliver(self._cache.replace(listed, version))

    async def _follow(self) -> Relist:
        """Watch until there is a reason to relist, and return it; a single broken connection is none."""
        relist_at = self._timing.monotonic() + self._timing.relist * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        while not self._relist_requested.is_set():
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


def _number(version: str) -> int:
    if not version.isdecimal():
        raise MalformedObjectError("metadata.resourceVersion", f"{version!r} is not a number")
    return int(version)


@dataclass(frozen=True, slots=True)
class Reduced(Generic[T]):
    """One version of an object, reduced to what is cached; ``problem`` says why there is no view of it."""

    name: str
    uid: str
    version: int
    view: T | None
    problem: str


class ObjectCache(Generic[T]):
    """Objects by name, reduced to the fields that we need, so that thousands fit into little memory.

    Args:
        view: Reduces an object; an exception means that this version cannot parse it.

    Attributes:
        version: resourceVersion up to which the cache is complete.
        views: the objects that could be parsed. Copy it before you keep it.
        unreadable: why the others cannot be parsed.
    """

    def __init__(self, view: Callable[[Json], T]) -> None:
        self._view = view
        self._known: dict[str, tuple[str, int]] = {}
        self._gone: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}
        self.version = 0
        self.views: dict[str, T] = {}
        self.unreadable: dict[str, str] = {}

    def reduce(self, body: Json) -> Reduced[T]:
        """Return an object in reduced form, without storing it."""
        name, uid, version = _marks(body)
        try:
            return Reduced(name, uid, version, self._view(body), "")
        except (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Reduced(name, uid, version, None, str(error) or type(error).__name__)

    def replace(self, listed: Mapping[str, Reduced[T]], version: int) -> list[Delta[T]]:
        """Replace the cache by a complete list, given by name; objects missing from it are deleted.

        Objects that we have written since the list was made stay. A list that is older than the cache means that the
        API server was restored from a backup: then only the list counts.
        """
        if version < self.version:
            self._known = {name: (uid, 0) for name, (uid, _) in self._known.items()}
            self._gone.clear()
            self._forgotten.clear()
        self._advance(version)
        there = {reduced.uid for reduced in listed.values()}
        # A list from before an object was made lacks it, too, and the watch that follows tells of its making.
        self._gone = {uid: known for uid, known in self._gone.items() if uid in there or known > version}
        stored = [delta for reduced in listed.values() for delta in self._store(reduced)]
        missing = [name for name, (_, known) in self._known.items() if name not in listed and known <= version]
        return stored + [self._drop(name) for name in missing]

    def apply(self, event: WatchEvent) -> list[Delta[T]]:
        """Apply an event of the watch that continues from ``version``."""
        name, uid, version = _marks(event.body)
        if version <= self.version:
            return []
        self._advance(version)
        match event.change:
            case WatchEventType.BOOKMARK:
                return []
            case WatchEventType.DELETED:
                self._gone.pop(uid, None)
                _, known = self._known.get(name, ("", version + 1))
                return [self._drop(name)] if known <= version else []
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                return self._store(self.reduce(event.body))
            case _:
                assert_never(event.change)

    def learn(self, body: Json) -> list[Delta[T]]:
        """Store the response to one of our own writes, unless the watch has already delivered it or something newer."""
        reduced = self.reduce(body)
        return self._store(reduced) if reduced.version > self.version else []

    def forget(self, name: str, uid: str | None = None) -> list[Delta[T]]:
        """Remove an object that is gone before the watch reports it; outdated input does not bring it back.

        Without ``uid``, this is the cached object of that name.
        """
        known, version = self._known.get(name, (uid, 0))
        if (gone := uid or known) is None:
            return []
        self._gone[gone] = version if known == gone else 0
        if name not in self._known or known != gone:
            return []
        self._forgotten[name] = max(version, self._forgotten.get(name, 0))
        return [self._drop(name)]

    def _advance(self, version: int) -> None:
        """Note that the cache is complete up to a version; nothing older comes any more."""
        self.version = version
        self._forgotten = {name: known for name, known in self._forgotten.items() if known > version}

    def _store(self, reduced: Reduced[T]) -> list[Delta[T]]:
        _, known = self._known.get(reduced.name, ("", self._forgotten.get(reduced.name, -1)))
        if reduced.uid in self._gone or known >= reduced.version:
            return []
        self._known[reduced.name] = reduced.uid, reduced.version
        before = self.views.pop(reduced.name, None)
        self.unreadable.pop(reduced.name, None)
        if reduced.view is None:
            self.unreadable[reduced.name] = reduced.problem
        else:
            self.views[reduced.name] = reduced.view
        return [Delta(before, reduced.view)]

    def _drop(self, name: str) -> Delta[T]:
        del self._known[name]
        self.unreadable.pop(name, None)
        return Delta(self.views.pop(name, None), None)


def _marks(body: Json) -> tuple[str, str, int]:
    """Return name, UID and resourceVersion of an object; a bookmark has only the last."""
    try:
        metadata = body["metadata"]
        return metadata.get("name", ""), metadata.get("uid", ""), int(metadata["resourceVersion"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MalformedObjectError("metadata", "it has no resourceVersion that is a number") from None
