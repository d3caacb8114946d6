"""What happened to the objects of an API server in memory, for those who watch: a log that forgets its beginning."""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json
from nodeupgrade.ports.kube import ExpiredError, Resource, WatchEvent, WatchEventType

REMEMBERED = 10_000
"""Entries that are kept; a watch that wants to begin before them has to list anew."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write: the object before and after it, None where there was none or is none any more."""

    revision: int
    plural: str
    namespace: str | None
    before: Json | None
    after: Json | None


@dataclass(slots=True)
class WatchLog:
    """Entries in order of their revision, and the watches that follow them.

    Attributes:
        compacted: the newest revision whose entry is forgotten.
    """

    compacted: int = 0
    _entries: list[Entry] = field(default_factory=list)
    _drops: int = 0
    _bookmarks: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, entry: Entry) -> None:
        """Tell all watches of a write."""
        self._entries.append(entry)
        if len(self._entries) > REMEMBERED:
            self.compacted = self._entries[REMEMBERED // 2 - 1].revision
            del self._entries[: REMEMBERED // 2]
        self._wake()

    def compact(self, revision: int) -> None:
        """Forget what happened up to a revision; watches that run go on."""
        self.compacted = max(self.compacted, revision)

    def drop(self) -> None:
        """End all watches, as a load balancer or a restarted API server does."""
        self._drops += 1
        self._wake()

    def bookmark(self) -> None:
        """Tell all watches how far they are, as an API server does every minute."""
        self._bookmarks += 1
        self._wake()

    async def follow(
        self, resource: Resource, since: int, now: Callable[[], int], matches: Callable[[Json], bool]
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield what happens after a revision, until dropped.

        Raises:
            ExpiredError: It is forgotten already.
        """
        if since < self.compacted:
            raise ExpiredError(f"cannot watch {resource.plural} because {since} is older than {self.compacted}")
        drops, bookmarks = self._drops, self._bookmarks
        while drops == self._drops:
            news = self._news
            for entry in [entry for entry in self._entries if entry.revision > since]:
                since = entry.revision
                if (event := _event(resource, entry, matches)) is not None:
                    yield event
                if drops != self._drops:
                    return
            if bookmarks != self._bookmarks:
                bookmarks, since = self._bookmarks, max(since, now())
                yield WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": str(since)}})
                continue
            await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _event(resource: Resource, entry: Entry, matches: Callable[[Json], bool]) -> WatchEvent | None:
    """Tell an entry as somebody sees it who sees only objects that match."""
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
