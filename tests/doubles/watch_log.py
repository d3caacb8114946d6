"""The log of writes to an in-memory API server, for its watches; it forgets its oldest entries."""

import asyncio
import copy
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from operator import attrgetter

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import ExpiredError, Resource, WatchEvent, WatchEventType

REMEMBERED = 10_000
"""How many entries are kept; a watch that wants to start before them has to list again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write: the object before and after it; None where it did not exist."""

    revision: int
    plural: str
    namespace: str | None
    before: Json | None
    after: Json | None


@dataclass(slots=True)
class WatchLog:
    """Entries in order of their revision, and the watches that follow them."""

    compacted: int = 0  # the newest revision whose entry is forgotten
    _entries: list[Entry] = field(default_factory=list)
    _drops: int = 0
    _bookmarks: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, entry: Entry) -> None:
        """Append a write, and wake all watches."""
        self._entries.append(entry)
        if len(self._entries) > REMEMBERED:
            self.compacted = self._entries[REMEMBERED // 2 - 1].revision
            del self._entries[: REMEMBERED // 2]
        self._wake()

    def compact(self, revision: int) -> None:
        """Forget everything up to a revision; running watches go on."""
        self.compacted = max(self.compacted, revision)

    def drop(self) -> None:
        """End all watches, as a load balancer or a restarted API server does."""
        self._drops += 1
        self._wake()

    def bookmark(self) -> None:
        """Send a bookmark to all watches, as an API server does every minute."""
        self._bookmarks += 1
        self._wake()

    async def follow(
        self, resource: Resource, since: int, now: Callable[[], int], matches: Callable[[Json], bool]
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield events after a revision, until dropped.

        Raises:
            ExpiredError: The revision is forgotten already.
        """
        if since < self.compacted:
            raise ExpiredError(f"cannot watch {resource.plural} because {since} is older than {self.compacted}")
        drops, bookmarks = self._drops, self._bookmarks
        while drops == self._drops:
            changed = self._changed
            for entry in self._entries[bisect_right(self._entries, since, key=_revision) :]:
                since = entry.revision
                if (event := _event(resource, entry, matches)) is not None:
                    yield event
                if drops != self._drops:
                    return
            if bookmarks != self._bookmarks:
                bookmarks, since = self._bookmarks, max(since, now())
                yield WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": str(since)}})
                continue
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_revision = attrgetter("revision")


def _event(resource: Resource, entry: Entry, matches: Callable[[Json], bool]) -> WatchEvent | None:
    """Return the event as a watch sees it that selects only matching objects; None if it sees nothing."""
    if entry.plural != resource.plural or resource.namespace not in {None, entry.namespace}:
        return None
    was, is_now = (body is not None and matches(body) for body in (entry.before, entry.after))
    if is_now and entry.after is not None:
        return WatchEvent(WatchEventType.MODIFIED if was else WatchEventType.ADDED, copy.deepcopy(entry.after))
    if not was or entry.before is None:
        return None
    gone = copy.deepcopy(entry.before)
    gone["metadata"]["resourceVersion"] = str(entry.revision)
    return WatchEvent(WatchEventType.DELETED, gone)
