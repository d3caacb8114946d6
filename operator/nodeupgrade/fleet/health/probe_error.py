"""Why a health check could not be evaluated."""

from nodeupgrade.errors import NodeUpgradeError


class ProbeError(NodeUpgradeError):
    """A check cannot be evaluated; the message says why."""
