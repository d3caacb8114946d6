"""Time."""

from datetime import datetime
from typing import Protocol

from nodeupgrade.api.values import BootIdentity, MonotonicSeconds


class Clock(Protocol):
    """Deadlines use monotonic(); now() is for display only, since wall clocks jump."""

    def now(self) -> datetime:
        """Wall-clock time, UTC."""
        ...

    def monotonic(self) -> MonotonicSeconds:
        """Seconds since boot, counting suspended time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def boot(self) -> BootIdentity:
        """Identity of the current boot of the node."""
        ...
