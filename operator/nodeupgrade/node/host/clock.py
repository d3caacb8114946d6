"""Wall-clock and monotonic time."""

from datetime import datetime
from typing import Protocol

from nodeupgrade.api.values import AwakeTime, BootIdentity, MonotonicSeconds


class Clock(Protocol):
    """Tells the time. now() is for display only, since wall clocks jump.

    Use monotonic() for what others count meanwhile, such as the kubelet-down budget: to the control plane a suspended
    node is a node without a kubelet. Use awake() for what processes of this node need time for, such as the settle
    period: none of them runs while it is suspended.
    """

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""

    def monotonic(self) -> MonotonicSeconds:
        """Return the seconds since boot, including time spent suspended."""

    def awake(self) -> AwakeTime:
        """Return the present moment on the clock that stands still while suspended."""

    def sleep(self, seconds: float) -> None:
        """Wait for the given number of seconds."""

    def boot(self) -> BootIdentity:
        """Return the identity of the node's current boot."""
