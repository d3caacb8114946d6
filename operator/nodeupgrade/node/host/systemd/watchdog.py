"""Ends this process when it makes no progress: the ``WatchdogSec`` protocol of systemd, fed from a thread of its own.

A frozen process (a debugger, SIGSTOP) feeds nothing, so systemd kills it, which also works on a stopped process. A
process whose main thread hangs, on a disk for example, kills itself. Either way systemd starts it again.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

import structlog

from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.host.systemd.notify import notify

log = structlog.get_logger()

FEEDS = 4
"""How often systemd is told, within the time after which it would kill."""


def kill_self() -> None:
    """End this process as ``kill -9`` does: no handler can delay it."""
    os.kill(os.getpid(), signal.SIGKILL)


class Watchdog:
    """Watches the thread that created it. Use it as a context manager; it does nothing if systemd does not ask for it.

    Args:
        environment: has ``WATCHDOG_USEC`` if systemd asks.
        kill: ends the process.
    """

    def __init__(self, environment: Mapping[str, str], *, kill: Callable[[], None] = kill_self) -> None:
        self._seconds = int(environment.get("WATCHDOG_USEC") or 0) / 1e6
        self._kill = kill
        self._patience = self._until = float("inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()

    def allow(self, seconds: float) -> None:
        """From now on there is a sign of progress at least every so many seconds; this call is one."""
        self._patience = seconds
        self.progress()

    def progress(self, planned: float = 0.0) -> None:
        """Show progress. The next sign may take ``planned`` seconds longer than allowed, which are spent asleep."""
        self._until = time.monotonic() + planned + self._patience

    def _feed(self) -> None:
        while True:
            if time.monotonic() > self._until:
                log.critical("watchdog_expired", allowed=self._patience)
                self._kill()
                return
            notify("WATCHDOG=1")
            if self._ended.wait(self._seconds / FEEDS):
                return


class WatchedClock:
    """A clock whose user is known to be asleep, rather than hung, while it waits.

    Implements ports.clock.Clock.
    """

    def __init__(self, clock: Clock, watchdog: Watchdog) -> None:
        self.now, self.monotonic, self.awake, self.boot = clock.now, clock.monotonic, clock.awake, clock.boot
        self._clock = clock
        self._watchdog = watchdog

    def sleep(self, seconds: float) -> None:
        self._watchdog.progress(seconds)
        self._clock.sleep(seconds)
        self._watchdog.progress()
