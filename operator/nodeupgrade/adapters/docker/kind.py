"""What is true of Docker on every node."""

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import RuntimeKind

UNIT = "docker.service"
SOCKET_UNIT = "docker.socket"
"""Starts the service as soon as anybody connects, so that it has to be stopped, too."""

DOCKER = RuntimeKind(
    name=SupportedRuntime.DOCKER,
    unit=UNIT,
    why_no_shield="its kubelet talks to Docker in Docker's own protocol, which the shield does not understand",
    stops_for_rewriting=True,
)
