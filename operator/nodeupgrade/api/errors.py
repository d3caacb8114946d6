"""The base class of this project's errors, for packages below ``nodeupgrade.errors``."""


class NodeUpgradeError(Exception):
    """Base class of all errors that this project raises on purpose."""
