"""Health checks: who evaluates them, and who knows what the evaluations came to."""

from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.events import Notice
from nodeupgrade.domain.rollout.health import HealthObservation, HealthReading


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


# Notifications: who takes notices to those who want them.


class DeliveryError(NodeUpgradeError):
    """A receiver does not take a notice; the message names the receiver, not its URL, which may be a secret."""


class NoticeSender(Protocol):
    """Takes notices to receivers, which are known by their names."""

    async def send(self, receiver: str, notice: Notice) -> None:
        """Deliver a notice; it may arrive more than once.

        Raises:
            DeliveryError: The receiver has not taken it, or may not have.
        """
