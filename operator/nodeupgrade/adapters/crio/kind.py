"""What is true of CRI-O on every node: its unit, and what it keeps on disk."""

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import RuntimeKind

UNIT = "crio.service"

CRIO = RuntimeKind(
    name=SupportedRuntime.CRIO,
    unit=UNIT,
    remembers_ends=True,
    unproven="no run of it on a real node with CRI-O is known, only on recorded storage",
)
