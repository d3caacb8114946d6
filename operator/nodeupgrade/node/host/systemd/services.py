"""The ports to the service manager (systemd) of one node."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.systemd.units import UnitStatus

Look: TypeAlias = Callable[[], None]
"""The last look before a ``daemon-reload``, which takes from containers what systemd does not know of.

It raises StepFailed where that must not happen. See facts/device_access.py.
"""


class ServicesView(Protocol):
    """Inspects units without changing any."""

    def status(self, unit: str) -> UnitStatus:
        """Return a unit's status; an unknown unit has the load_state ``not-found``."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment that every service gets."""

    def version(self) -> int:
        """Return the version of systemd, for example 252.

        Raises:
            StepFailed: it is unknown.
        """

    def devices(self) -> Mapping[str, UnitDevices]:
        """Return what systemd knows of the devices of scopes, among them those of containers, by their names."""

    def scope_names(self) -> frozenset[str]:
        """Return the names of the scopes; a twentieth of the time of devices()."""

    def shuts_down(self) -> bool:
        """Report whether the machine shuts down, or waits for programs that delay that, as kubelets do."""


class ServiceManager(ServicesView, Protocol):
    """Controls units. Every method is idempotent, bounded in time, and raises StepFailed on failure."""

    def start(self, unit: str, *, wait: bool = True) -> None:
        """Start a unit, after resetting its failures; with ``wait``, wait for the job to finish."""

    def kill(self, unit: str) -> None:
        """Kill every process of a unit; no error if it has none."""

    def stop(self, unit: str, *, wait: bool = True) -> None:
        """Stop a unit; with ``wait``, wait until no process of its main service remains."""

    def restart(self, unit: str, *, seconds: float) -> None:
        """Restart a unit, after resetting its failures, and wait for the job to finish, but not longer than that.

        A unit that takes longer goes on to start.
        """

    def prepare_mask(self, unit: str, look: Look) -> None:
        """Do the slow part of mask() ahead of time, with a reload() if necessary; the unit can still be started."""

    def mask(self, unit: str, look: Look) -> None:
        """Keep the unit from starting until unmask() or a reboot; with a reload() if prepare_mask() has no effect."""

    def unmask(self, unit: str) -> None:
        """Allow the unit to start again; an administrator's mask and the effect of prepare_mask() stay."""

    def remove_mask(self, unit: str) -> None:
        """Undo prepare_mask(), unless mask() is in effect; reload() makes systemd forget it."""

    def log(self, unit: str, *, since: AwakeTime | None = None) -> tuple[str, ...]:
        """Return what the unit has logged to systemd's journal since its last start: lines, oldest first.

        Empty if the log is too long to be read as a whole; the newest lines if they go back to ``since``, which
        suffices.
        """

    def remembers_start(self, unit: str) -> bool:
        """Report whether the log has what anybody logged since a unit was started: a full one gives up the oldest."""

    def reload(self, look: Look) -> None:
        """Make systemd reload unit files, directly after a look; if that fails, nothing happens."""
