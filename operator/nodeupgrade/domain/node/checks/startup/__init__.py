"""Checks of the kubelet's start: will the new kubelet start?

What these checks find would also fail the run itself, but only after the kubelet has stopped or containers are lost.
"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.startup import configuration, disks, host, kernel, providers, settings
from nodeupgrade.domain.node.checks.startup.facts import CredentialProviders, Readiness, StartingHost

__all__ = ["CHECKS", "WARNINGS", "CredentialProviders", "Readiness", "StartingHost"]

CHECKS: tuple[Check[Readiness], ...] = (
    *configuration.CHECKS,
    *settings.CHECKS,
    *providers.CHECKS,
    *host.CHECKS,
    *kernel.CHECKS,
    *disks.CHECKS,
)
WARNINGS: tuple[Check[Readiness], ...] = (*configuration.WARNINGS, *settings.WARNINGS)
