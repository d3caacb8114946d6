"""Asks the runtime how the containers of a sandbox ended."""

from google.protobuf.message import DecodeError

from nodeupgrade.api.values import SandboxId
from nodeupgrade.errors import Transient
from nodeupgrade.node.runtimes.cri import listing
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.messages import read
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.shield.upstream import Upstream

ANSWER_SECONDS = 2.0


async def list_containers(upstream: Upstream, service: str, sandbox: SandboxId) -> tuple[ContainerInstance, ...]:
    """Return the containers of a sandbox as the runtime lists them, with their exit codes.

    Returns:
        Empty if the runtime does not answer.
    """
    try:
        data = await upstream.ask(f"{service}/ListContainers", b"", ANSWER_SECONDS)
        found = [c for c in read(pb.ListContainersResponse, data).containers if c.pod_sandbox_id == sandbox]
        return tuple([await _with_exit_code(upstream, service, each) for each in found])
    except (Transient, DecodeError):
        return ()


async def _with_exit_code(upstream: Upstream, service: str, listed: pb.Container) -> ContainerInstance:
    status = None
    if not listing.is_running(listed):
        request = pb.ContainerStatusRequest(container_id=listed.id).SerializeToString()
        data = await upstream.ask(f"{service}/ContainerStatus", request, ANSWER_SECONDS)
        status = read(pb.ContainerStatusResponse, data)
    return listing.container_of(listed, status, {}, process=None, monitor=None)
