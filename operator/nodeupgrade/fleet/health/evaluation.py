"""The ports of health checks: the probe that evaluates them, and the source of their readings."""

from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.health.checks import HealthObservation, HealthReading


class ProbeError(NodeUpgradeError):
    """A check cannot be evaluated; the message says why."""


class HealthProbe(Protocol):
    """Evaluates health checks."""

    async def observe(self, check: HealthCheck) -> HealthObservation:
        """Evaluate a check once; one that cannot be evaluated, for whatever reason, is BROKEN. May be cancelled."""


class HealthSource(Protocol):
    """Knows what the evaluations of health checks came to; answers at once."""

    def readings(self, upgrade: Upgrade) -> Mapping[str, HealthReading]:
        """Return what is known of a rollout's checks, by name, and see to it that they are evaluated from now on."""

    def forget(self, name: str) -> None:
        """Stop evaluating the checks of a NodeUpgrade that is gone."""
