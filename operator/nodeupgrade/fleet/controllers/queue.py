"""A work queue as controllers have it: each key is queued once, processed by one worker at a time, and may wait."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")

LONGEST_BACKOFF_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """A delaying, rate-limiting work queue for one event loop.

    Adding a key that is queued already keeps the earlier of both times. Adding one that is being processed queues it
    again for afterwards. So no event is lost, and no key is processed twice at the same time.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._due: dict[K, float] = {}
        self._taken: set[K] = set()
        self._rested: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, after: float = 0.0) -> None:
        """Queue a key to be due in ``after`` seconds."""
        due = max(self._now() + after, self._rested.get(key, 0.0))
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    async def take(self) -> K:
        """Wait for the next key that is due and return it; the caller must call done() when finished."""
        while True:
            self._changed.clear()
            waiting = ((due, key) for key, due in self._due.items() if key not in self._taken)
            first = min(waiting, key=lambda each: each[0], default=None)
            if first is not None and first[0] <= self._now():
                del self._due[first[1]]
                self._taken.add(first[1])
                return first[1]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if first is None else first[0] - self._now()):
                    await self._changed.wait()

    def __len__(self) -> int:
        """Return the number of queued keys, due or not."""
        return len(self._due)

    def done(self, key: K, rest: float = 0.0) -> None:
        """Release a key; however often it is added, it is not due again for ``rest`` seconds."""
        self._taken.discard(key)
        self._rested = {other: until for other, until in self._rested.items() if until > self._now()}
        if rest > 0:
            self._rested[key] = self._now() + rest
        if key in self._due:
            self._due[key] = max(self._due[key], self._rested.get(key, 0.0))
        self._changed.set()

    def back_off(self, key: K) -> float:
        """Count a failure, and return how many seconds to wait: twice as long after each in a row, with jitter."""
        self._failures[key] = self._failures.get(key, 0) + 1
        ceiling = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(self._failures[key], 10))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    def forget(self, key: K) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)
