"""An informer: keeps a cache of one kind up to date by list and watch, and relists when the watch cannot continue.

No behaviour of the API server ends it: every error is reported and followed by a retry with jittered exponential
back-off. Nothing depends on having received every event: everything is relisted periodically.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")

RELIST_SECONDS = 900.0
"""Interval between periodic lists, give or take a fifth."""

PATIENCE_SECONDS = 1.0
"""How long to wait at most for the watch to deliver a resourceVersion that is known to exist before listing."""

LISTED_PER_SECOND = 1000
"""Objects that an API server lists in about a second: listing few of them is quicker than waiting for the watch."""

SHORTEST_PATIENCE_SECONDS = 0.1

LIST_SECONDS = 60.0
"""How long a caller waits for a fresh list."""

SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

SHORTEST_WATCH_SECONDS = 5.0
"""A watch that ends sooner without an event counts as a failure, so that it is not restarted in a tight loop."""

GIVE_UP_WATCHING = 4
"""Failures in a row after which everything is relisted: the resourceVersion may be one that cannot be watched from."""


class Relist(StrEnum):
    """Why all objects of a kind are listed."""

    START = "start"
    EXPIRED = "expired"
    """The resourceVersion of the watch is too old (HTTP 410)."""
    ERROR = "error"
    BEHIND = "behind"
    """A caller knows a newer resourceVersion than the watch has delivered."""
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock and intervals, in seconds; tests replace them so as not to wait."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    relist: float = RELIST_SECONDS
    patience: float = PATIENCE_SECONDS
    list_timeout: float = LIST_SECONDS
