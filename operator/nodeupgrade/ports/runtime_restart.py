"""What the engine asks a container runtime about being restarted, before anything is decided."""

from typing import Protocol

from nodeupgrade.domain.node.host import RuntimeProcess, UnitStatus
from nodeupgrade.domain.node.runtime import NextStart, RestartHazards, RestartTuning, RuntimeAtWork, RuntimeKind


class RestartView(Protocol):
    """What a runtime and its program know of their own restart. Nothing is changed by asking."""

    @property
    def kind(self) -> RuntimeKind:
        """What is the same for this runtime on every node; needs no connection."""
        ...

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Let the program on disk say what it would make of its configuration.

        Args:
            unit: how systemd would start it.
            running: the process that answers now, if that is known.
        """
        ...

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Say what a restart would cost, from what is known of this runtime's versions and habits; asks nobody."""
        ...

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        """Find out whether the restart of a run can be made gentler without changing anything else.

        Whatever speaks against it, the run goes on without, and the answer says why.
        """
        ...
