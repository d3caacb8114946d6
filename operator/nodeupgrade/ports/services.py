"""The service manager of one node."""

from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.domain.node.host import UnitStatus

__all__ = ["ServiceManager", "ServicesView", "UnitStatus"]


class ServicesView(Protocol):
    """What can be known of units without changing any."""

    def status(self, unit: str) -> UnitStatus:
        """Look at a unit; an unknown unit has load_state ``not-found``."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables that every service is given."""
        ...


class ServiceManager(ServicesView, Protocol):
    """Controls units. Every method is idempotent, bounded in time and raises StepFailed when it does not take."""

    def start(self, unit: str, *, wait: bool = True) -> None:
        """Start a unit, after forgetting earlier failures; ``wait`` for the job to end."""
        ...

    def stop(self, unit: str) -> None:
        """Stop a unit and wait until no process of its main service is left."""
        ...

    def restart(self, unit: str) -> None:
        """Restart a unit, after forgetting earlier failures, and wait for the job to end."""
        ...

    def prepare_mask(self, unit: str) -> None:
        """Do the slow part of mask() ahead of time; nothing is forbidden yet."""
        ...

    def mask(self, unit: str) -> None:
        """Forbid starting until unmask or reboot."""
        ...

    def unmask(self, unit: str) -> None:
        """Lift our mask, and what prepare_mask() left; an administrator's mask is not touched."""
        ...

    def log(self, unit: str) -> tuple[str, ...]:
        """What the unit has written to the journal since it was started last, one line each, oldest first.

        Nothing if it cannot be had as a whole.
        """
        ...

    def reload(self) -> None:
        """Make systemd read unit files again."""
        ...
