"""Detect drift of the kubelet: differences between the running process and its next start.

The evidence, in this order: the configuration that the kubelet reports at ``/configz``, its command line and its
environment. For everything else that a start reads, and for what these leave open, modification times decide.
"""

from nodeupgrade.domain.node.checks.drift.facts import NO_DRIFT, Discrepancy, Drift, ReadAtStart, Start, Was
from nodeupgrade.domain.node.checks.drift.judging import CHECKS, WARNINGS, find

__all__ = ["CHECKS", "NO_DRIFT", "WARNINGS", "Discrepancy", "Drift", "ReadAtStart", "Start", "Was", "find"]
