"""What is the same for containerd on every node."""

from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import TRANSIENT_UNITS, RuntimeKind

UNIT = "containerd.service"
TUNED_CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
"""The configuration for the time of one run."""
DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-shims.conf"
"""Drop-ins apply in the order of their names, and the last ExecStart counts."""

CONTAINERD = RuntimeKind(name=SupportedRuntime.CONTAINERD, unit=UNIT, tuning=(TUNED_CONFIG, DROP_IN))
