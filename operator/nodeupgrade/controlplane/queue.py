"""A work queue of names: each name is queued once, processed by one worker at a time, and may be delayed."""

import asyncio
from collections.abc import Callable


class WorkQueue:
    """A delaying, rate-limiting work queue as controllers have it, for one event loop.

    Adding a name that is queued already keeps the earlier of both times. Adding one that is being processed queues it
    again for afterwards. So no event is lost, and no name is processed twice at the same time.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._due: dict[str, float] = {}
        self._taken: set[str] = set()
        self._rested: dict[str, float] = {}
        self._changed = asyncio.Event()

    def add(self, name: str, after: float = 0.0) -> None:
        """Queue a name to be due in ``after`` seconds."""
        due = max(self._now() + after, self._rested.get(name, 0.0))
        self._due[name] = min(due, self._due.get(name, due))
        self._changed.set()

    async def take(self) -> str:
        """Wait for the next name that is due and return it; the caller must call done() when finished."""
        while True:
            self._changed.clear()
            waiting = [(due, name) for name, due in self._due.items() if name not in self._taken]
            due, name = min(waiting, default=(None, ""))
            if due is not None and due <= self._now():
                del self._due[name]
                self._taken.add(name)
                return name
            try:
                async with asyncio.timeout(None if due is None else due - self._now()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def __len__(self) -> int:
        """Return the number of queued names, due or not."""
        return len(self._due)

    def done(self, name: str, rest: float = 0.0) -> None:
        """Release a name; however often it is added, it is not due again for ``rest`` seconds."""
        self._taken.discard(name)
        self._rested = {other: until for other, until in self._rested.items() if until > self._now()}
        if rest > 0:
            self._rested[name] = self._now() + rest
        if name in self._due:
            self._due[name] = max(self._due[name], self._rested.get(name, 0.0))
        self._changed.set()


# Turns events into names in the work queue: which NodeUpgrades to reconcile after a change.

GATHERING_SECONDS = 0.2
"""How long to collect events about nodes before a pass, so that one pass serves all of them."""


class Enqueuer:
    """Keeps track of the active NodeUpgrades, since a change of a Node may affect any of them.

    Mistakes are harmless: the resync requeues every unfinished NodeUpgrade periodically.
    """

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._active: set[str] = set()

    def upgrade_changed(self, name: str) -> None:
        """Requeue a NodeUpgrade that changed or may need work."""
        self._active.add(name)
        self._queue.add(name)

    def fleet_changed(self, name: str | None) -> None:
        """Requeue a NodeUpgrade whose nodes changed; None stands for all active ones."""
        for each in self._active if name is None else {name}:
            self._queue.add(each, GATHERING_SECONDS)

    def over(self, name: str) -> None:
        """Mark a NodeUpgrade as inactive: nothing is left to do until it changes."""
        self._active.discard(name)
