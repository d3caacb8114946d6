"""An event loop whose clock jumps: when nothing is left to do now, it is the time of the next timer at once.

An hour's outage takes milliseconds, and the order of everything is the same in every run. Only for code that waits for
nothing but timers and other tasks: sockets, threads and signals would be polled in a busy loop.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Never blocks; the time that it would have blocked for passes on the virtual clock."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now.

        Raises:
            RuntimeError: Nothing is ready, and no timer is left that would change that.
        """
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits and nothing will happen any more")
            self.skipped += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The event loop; its time starts at 0."""

    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._jumping.skipped


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
