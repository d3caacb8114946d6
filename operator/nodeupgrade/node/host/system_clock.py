"""Implements Clock with the clocks of the node's kernel."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from nodeupgrade.api.values import AwakeTime, BootIdentity, MonotonicSeconds
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of the node that this runs on."""

    processes: ProcessTable  # the node's

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(time.clock_gettime(time.CLOCK_BOOTTIME))

    def awake(self) -> AwakeTime:
        return AwakeTime(time.clock_gettime(time.CLOCK_MONOTONIC))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def boot(self) -> BootIdentity:
        """Return the kernel's boot id with the start time of PID 1.

        The boot id alone would miss a new init under a running kernel, as when the node itself is a container.

        Raises:
            Inconsistent: the node's ``/proc`` shows no init process.
        """
        init = self.processes.process(INIT)
        if init is None:
            raise Inconsistent("cannot identify this boot because /proc shows no process 1; run with the host's PIDs")
        return BootIdentity(f"{self.processes.boot_id()}:{init.started}")
