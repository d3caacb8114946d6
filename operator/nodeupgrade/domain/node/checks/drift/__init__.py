"""Would the kubelet start as it runs now? What was changed since its start shows only when it starts again.

Evidence in this order: what the kubelet says of itself (``/configz``), its command line and its environment; and for
everything else that a start reads, and for what these leave open, when it was changed last.
"""

from nodeupgrade.domain.node.checks.drift.facts import NO_DRIFT, Discrepancy, Drift, ReadAtStart, Start, Was
from nodeupgrade.domain.node.checks.drift.judging import CHECKS, WARNINGS, find

__all__ = ["CHECKS", "NO_DRIFT", "WARNINGS", "Discrepancy", "Drift", "ReadAtStart", "Start", "Was", "find"]
