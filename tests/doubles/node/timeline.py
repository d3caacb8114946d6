"""Simulated time: it passes only when code waits, and scheduled actions run meanwhile."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.values import AwakeTime, BootIdentity, MonotonicSeconds

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS_TO_BOOT = 30.0


@dataclass(order=True, slots=True)
class _Event:
    at: float
    number: int
    action: Callable[[], None] = field(compare=False)


class Timeline:
    """The clock of one simulated node, and the schedule of everything on it that acts by itself."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.boots = 1
        self.set_by = timedelta()  # by how much somebody has set the wall clock forward
        self._before_boot = 0.0
        self._suspended: list[tuple[float, float]] = []
        self._agenda: list[_Event] = []
        self._numbered = 0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run ``action`` after that many seconds, unless the node reboots before."""
        self._numbered += 1
        heapq.heappush(self._agenda, _Event(self.monotonic + seconds, self._numbered, action))

    def advance(self, seconds: float) -> None:
        """Let time pass and run everything due in it, in order."""
        end = self.monotonic + seconds
        while self._agenda and self._agenda[0].at <= end:
            event = heapq.heappop(self._agenda)
            self.monotonic = max(self.monotonic, event.at)
            event.action()
        self.monotonic = end

    def suspend(self, seconds: float) -> None:
        """Let time pass in which nothing runs: what is due is due that much later."""
        self._suspended.append((self.monotonic, seconds))
        self.monotonic += seconds
        for event in self._agenda:  # which stays in order
            event.at += seconds

    def awake_at(self, monotonic: float) -> AwakeTime:
        """Return a moment on the clock that stands still while the node is suspended."""
        return AwakeTime(monotonic - sum(seconds for since, seconds in self._suspended if since < monotonic))

    def reboot(self) -> None:
        """Start a new boot: drop all scheduled actions, and restart the monotonic clock."""
        self._before_boot += self.monotonic + SECONDS_TO_BOOT
        self._agenda.clear()
        self._suspended.clear()
        self.monotonic = SECONDS_TO_BOOT
        self.boots += 1

    @property
    def nanoseconds(self) -> int:
        """Nanoseconds since the epoch."""
        return int((EPOCH.timestamp() + self._before_boot + self.monotonic) * 1_000_000_000)

    @property
    def wall(self) -> datetime:
        """Wall-clock time."""
        return EPOCH + timedelta(seconds=self._before_boot + self.monotonic) + self.set_by


class SimulatedClock:
    """Implements node.host.clock.Clock."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        """Wall-clock time, UTC."""
        return self._timeline.wall

    def monotonic(self) -> MonotonicSeconds:
        """Seconds since boot."""
        return MonotonicSeconds(self._timeline.monotonic)

    def awake(self) -> AwakeTime:
        """The present moment, without time spent suspended."""
        return self._timeline.awake_at(self._timeline.monotonic)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._timeline.advance(seconds)

    def boot(self) -> BootIdentity:
        """Identity of the current boot."""
        return BootIdentity(f"boot-{self._timeline.boots}")
