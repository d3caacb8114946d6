"""Checks of the kubelet's state files: can the new kubelet, and the old one on the way back, go on with them?"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.admission import Admission
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.domain.node.checks.state import cpus, devices, files, gated

CHECKS: tuple[Check[Readiness], ...] = (*files.CHECKS, *gated.CHECKS, *cpus.CHECKS)
OF_PODS: tuple[Check[Admission], ...] = devices.CHECKS
