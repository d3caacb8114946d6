"""What is true of containerd on every node: its unit, and the files that tune its restart."""

from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import TRANSIENT_UNITS, RuntimeKind

UNIT = "containerd.service"
TUNED_CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
"""containerd's configuration during a run."""
DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-shims.conf"
"""Named to sort last: drop-ins apply in the order of their names, and the last ExecStart wins."""

CONTAINERD = RuntimeKind(
    name=SupportedRuntime.CONTAINERD, unit=UNIT, tuning=(TUNED_CONFIG, DROP_IN), exchangeable_socket=True
)
