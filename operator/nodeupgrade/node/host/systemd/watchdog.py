"""Notifies systemd about this service (the ``sd_notify`` protocol)."""

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

import structlog

from nodeupgrade.node.host.clock import Clock
from nodeupgrade.text import number


def notify(message: str) -> None:
    """Send a message; do nothing in a process that systemd did not start."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(message.encode(), address)


def notify_ready() -> None:
    """Report that the service is ready."""
    notify("READY=1")


log = structlog.get_logger()

FEEDS = 4
"""How many messages systemd gets within the time after which it would kill."""


def kill_self() -> None:
    """End this process as ``kill -9`` does: no handler can delay it."""
    os.kill(os.getpid(), signal.SIGKILL)


class Watchdog:
    """A context manager that watches the thread that created it, if systemd asks for that.

    Args:
        environment: has ``WATCHDOG_USEC`` if systemd asks.
        kill: ends the process.
    """

    def __init__(self, environment: Mapping[str, str], *, kill: Callable[[], None] = kill_self) -> None:
        self._seconds = (number(environment.get("WATCHDOG_USEC", "")) or 0) / 1e6
        self._kill = kill
        self._patience = self._until = math.inf
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()

    def allow(self, seconds: float) -> None:
        """Expect a sign of progress at least every so many seconds from now on; this call is one."""
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
    """Implements Clock with another one; a sleep is a sign of progress."""

    def __init__(self, clock: Clock, watchdog: Watchdog) -> None:
        self.now, self.monotonic, self.awake, self.boot = clock.now, clock.monotonic, clock.awake, clock.boot
        self._clock = clock
        self._watchdog = watchdog

    def sleep(self, seconds: float) -> None:
        self._watchdog.progress(seconds)
        self._clock.sleep(seconds)
        self._watchdog.progress()
