"""The node's clocks and the identity of its boot."""

import time
from datetime import UTC, datetime

from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.api.values import BootIdentity, MonotonicSeconds
from nodeupgrade.domain.errors import Inconsistent

INIT = 1


class NodeClock:
    """Implements ports.clock.Clock.

    Args:
        processes: the node's processes.
    """

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes

    def now(self) -> datetime:
        """Wall-clock time, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> MonotonicSeconds:
        """Seconds since boot; suspended time counts, since leases and deadlines ran on meanwhile."""
        return MonotonicSeconds(time.clock_gettime(time.CLOCK_BOOTTIME))

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def boot(self) -> BootIdentity:
        """Kernel boot id and start time of PID 1.

        The boot id alone would miss a node whose init was replaced under a running kernel, as happens to a
        node that is itself a container or a namespace.

        Raises:
            Inconsistent: the node's ``/proc`` shows no init process.
        """
        init = self._processes.process(INIT)
        if init is None:
            raise Inconsistent("cannot identify this boot because /proc shows no process 1; run with the host's PIDs")
        return BootIdentity(f"{self._processes.boot_id()}:{init.started}")
