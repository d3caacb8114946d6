"""What is true of Docker on every node."""

from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import TRANSIENT_UNITS, RuntimeKind

UNIT = "docker.service"
SOCKET_UNIT = "docker.socket"
"""Starts the service as soon as anybody connects."""
GATE_FILE = TRANSIENT_UNITS / "nodeupgrade-docker-gate.service"
GATE_DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-gate.conf"
GATE_LOCK = PurePosixPath("/run/nodeupgrade-docker-gate.lock")

DOCKER = RuntimeKind(
    name=SupportedRuntime.DOCKER,
    unit=UNIT,
    tuning=(GATE_DROP_IN, GATE_FILE, GATE_LOCK),
    why_no_shield="its kubelet talks to Docker in Docker's own protocol, which the shield does not understand",
    stops_for_rewriting=True,
)
