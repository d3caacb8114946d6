"""Wall-clock and monotonic time."""

from datetime import datetime
from typing import Protocol

from nodeupgrade.api.values import BootIdentity, MonotonicSeconds


class Clock(Protocol):
    """Tells the time. Use monotonic() for deadlines; now() is for display only, since wall clocks jump."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        ...

    def monotonic(self) -> MonotonicSeconds:
        """Return the seconds since boot, including time spent suspended."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for the given number of seconds."""
        ...

    def boot(self) -> BootIdentity:
        """Return the identity of the node's current boot."""
        ...
