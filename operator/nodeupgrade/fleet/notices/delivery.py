"""Notifications: who takes notices to those who want them."""

from typing import Protocol

from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.notices.notice import Notice


class DeliveryError(NodeUpgradeError):
    """A receiver does not take a notice; the message names the receiver, not its URL, which may be a secret."""


class NoticeSender(Protocol):
    """Takes notices to receivers, which are known by their names."""

    async def send(self, receiver: str, notice: Notice) -> None:
        """Deliver a notice; it may arrive more than once.

        Raises:
            DeliveryError: The receiver has not taken it, or may not have.
        """
