"""Checks of the kubelet's start: will the new kubelet start?

What these checks find would also fail the run itself, but only after the kubelet has stopped or containers are lost.
"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.startup import configuration, host
from nodeupgrade.domain.node.checks.startup.facts import Readiness

__all__ = ["CHECKS", "WARNINGS", "Readiness"]

CHECKS: tuple[Check[Readiness], ...] = (*configuration.CHECKS, *host.CHECKS)
WARNINGS: tuple[Check[Readiness], ...] = configuration.WARNINGS
