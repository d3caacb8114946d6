"""The base of all errors of this project, for whoever stands below the domain."""


class NodeUpgradeError(Exception):
    """Base of everything this project raises on purpose."""
