"""An event loop in which time passes only while everybody waits, so that no machine is too slow for it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, lets the time pass."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self.passed += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, which starts at 0."""

    def __init__(self) -> None:
        self._own = _Selector()
        super().__init__(self._own)

    def time(self) -> float:
        """Seconds that the loop's tasks believe to have passed."""
        return self._own.passed


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run until the job is done."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(job)
