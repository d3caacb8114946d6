"""Checks of the kubelet's start: will the new kubelet start?

What these checks find would also fail the run itself, but only after the kubelet has stopped or containers are lost.
"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.startup import configuration, disks, host, identity, kernel, providers, settings
from nodeupgrade.domain.node.checks.startup.facts import CredentialProviders, Identity, Readiness, StartingHost

__all__ = ["CHECKS", "WARNINGS", "CredentialProviders", "Identity", "Readiness", "StartingHost"]

CHECKS: tuple[Check[Readiness], ...] = (
    *configuration.CHECKS,
    *settings.CHECKS,
    *providers.CHECKS,
    *identity.CHECKS,
    *host.CHECKS,
    *kernel.CHECKS,
    *disks.CHECKS,
)
WARNINGS: tuple[Check[Readiness], ...] = (
    *configuration.WARNINGS,
    *settings.WARNINGS,
    *kernel.WARNINGS,
)
