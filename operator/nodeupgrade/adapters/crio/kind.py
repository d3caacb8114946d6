"""What is true of CRI-O on every node: its unit, and what it keeps on disk."""

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import RuntimeKind

UNIT = "crio.service"

CRIO = RuntimeKind(name=SupportedRuntime.CRIO, unit=UNIT, remembers_ends=True)
