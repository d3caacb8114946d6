"""The Lease that serves as a node's heartbeat."""

from typing import Protocol

from nodeupgrade.api.json import Json


class LeaseApi(Protocol):
    """Reads and renews one node's Lease. Every method raises OSError or ValueError on failure."""

    @property
    def node(self) -> str:
        """Name of the Node that the Lease belongs to."""

    def read(self) -> Json:
        """Read the Lease."""

    def replace(self, lease: Json) -> None:
        """Replace the Lease that was read; the API server rejects this if it changed in the meantime."""
