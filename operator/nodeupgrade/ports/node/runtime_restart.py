"""What a container runtime can tell about its own restart. The engine asks before it plans a run."""

from typing import Protocol

from nodeupgrade.domain.node.runtime import NextStart, RestartHazards, RestartTuning, RuntimeAtWork, RuntimeKind
from nodeupgrade.domain.node.runtime_info import RuntimeProcess
from nodeupgrade.domain.node.units.status import UnitStatus


class RestartView(Protocol):
    """Inspects a restart of the runtime ahead of time. Changes nothing."""

    @property
    def kind(self) -> RuntimeKind:
        """The properties that this runtime has on every node; needs no connection."""
        ...

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Return what the program on disk would make of its configuration at the next start.

        Args:
            unit: how systemd would start it.
            running: the process that serves now, if known.
        """
        ...

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Return what a restart would cost, from what is known of this runtime's versions; needs no connection."""
        ...

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        """Return how a run's restart can be made gentler without changing anything else.

        If it cannot, the run goes on without that, and the result says why.
        """
        ...
