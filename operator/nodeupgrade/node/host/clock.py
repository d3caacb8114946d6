"""Wall-clock and monotonic time."""

from datetime import datetime
from typing import Protocol

from nodeupgrade.api.values import AwakeTime, BootIdentity, MonotonicSeconds


class Clock(Protocol):
    """The clocks of a node. now() is for display only, since wall clocks jump.

    Use monotonic() for what others count, such as the kubelet-down budget: to the control plane a suspended node is a
    node without a kubelet. Use awake() for work of this node's processes, such as the settle period: none of them runs
    while the node is suspended.
    """

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""

    def monotonic(self) -> MonotonicSeconds:
        """Return the seconds since boot, including time spent suspended."""

    def awake(self) -> AwakeTime:
        """Return the time on the clock that stands still while suspended."""

    def sleep(self, seconds: float) -> None:
        """Wait for the given number of seconds."""

    def boot(self) -> BootIdentity:
        """Return the identity of the node's current boot."""
