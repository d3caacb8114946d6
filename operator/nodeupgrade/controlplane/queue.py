"""A work queue of names: a name waits at most once, is worked on by one worker at a time, and may be due later."""

import asyncio
from collections.abc import Callable


class WorkQueue:
    """What controllers elsewhere call a rate-limiting queue, for one event loop.

    Adding a name that waits already keeps the earlier of both times; adding one that is being worked on makes it
    due again afterwards. So nothing is lost and nothing is done twice at once.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._due: dict[str, float] = {}
        self._taken: set[str] = set()
        self._rested: dict[str, float] = {}
        self._changed = asyncio.Event()

    def add(self, name: str, after: float = 0.0) -> None:
        """Let a name be due in so many seconds."""
        due = max(self._now() + after, self._rested.get(name, 0.0))
        self._due[name] = min(due, self._due.get(name, due))
        self._changed.set()

    async def take(self) -> str:
        """Wait for the next name that is due; whoever takes it calls done in the end."""
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
        """Count the names that wait, due or not."""
        return len(self._due)

    def done(self, name: str, rest: float = 0.0) -> None:
        """Let a name be taken again, but not for so many seconds, whoever adds it."""
        self._taken.discard(name)
        self._rested = {other: until for other, until in self._rested.items() if until > self._now()}
        if rest > 0:
            self._rested[name] = self._now() + rest
        if name in self._due:
            self._due[name] = max(self._due[name], self._rested.get(name, 0.0))
        self._changed.set()
