"""Would the kubelet that starts admit every pod again? Named checks, each of one thing that a kubelet asks.

A kubelet admits all pods anew when it starts, running or not, static pods included, in the order of their creation and
source by source; it kills those that it rejects (kubernetes #123980, still so). The order decides who is rejected,
not whether anybody is: so what is asked here is whether all of them fit together.
"""

from nodeupgrade.domain.node.checks.admission.facts import NOTHING_SEEN, Admission, HostFacts
from nodeupgrade.domain.node.checks.admission.registry import CHECKS

__all__ = ["CHECKS", "NOTHING_SEEN", "Admission", "HostFacts"]
