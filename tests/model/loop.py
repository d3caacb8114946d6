"""An event loop without input and output: when nothing is left to do now, it is the time of the next timer at once."""

import asyncio
from asyncio.base_events import BaseEventLoop
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Nothing:
    """Stands for a selector: nothing is ever heard, and time passes at once."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits and nothing will happen any more")
        self.passed += max(0.0, timeout)
        return []

    def close(self) -> None:
        pass


class InstantLoop(BaseEventLoop):
    """The event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Nothing()
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._selector.passed

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


_LOOP = InstantLoop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    asyncio.set_event_loop(None)
    return _LOOP.run_until_complete(main)
