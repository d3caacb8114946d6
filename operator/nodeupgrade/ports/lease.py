"""The Lease by which a node is known to be there."""

from typing import Protocol

from nodeupgrade.api.json import Json


class LeaseApi(Protocol):
    """One node's Lease. Every method raises OSError or ValueError when it cannot be had."""

    @property
    def node(self) -> str:
        """Name of the Node."""
        ...

    def read(self) -> Json:
        """The Lease as it is."""
        ...

    def replace(self, lease: Json) -> None:
        """Put another in the place of the one that was read; refused if somebody else did so meanwhile."""
        ...
