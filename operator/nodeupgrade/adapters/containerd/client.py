"""Client for the part of containerd's own gRPC API that this project uses."""

from collections.abc import Callable, Iterable

from google.protobuf.any_pb2 import Any
from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask

from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.cri import Connection
from nodeupgrade.adapters.cri.connection import UnaryMethod

NAMESPACE = (("containerd-namespace", "k8s.io"),)
"""Metadata of every call: Kubernetes' containers live in containerd's ``k8s.io`` namespace."""

VERSION = UnaryMethod("/containerd.services.version.v1.Version/Version", pb.VersionResponse)
GET = UnaryMethod("/containerd.services.containers.v1.Containers/Get", pb.GetContainerResponse)
UPDATE = UnaryMethod("/containerd.services.containers.v1.Containers/Update", pb.UpdateContainerResponse)
LIST_TASKS = UnaryMethod("/containerd.services.tasks.v1.Tasks/List", pb.ListTasksResponse)


class ContainerdClient:
    """Calls containerd's own API, bypassing its CRI plugin.

    Args:
        connection: connection to containerd's socket, with NAMESPACE as its metadata.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def version(self) -> str:
        """Return the version of the running daemon, without a leading ``v``."""
        return self._connection.ask(VERSION, Empty()).version.removeprefix("v")

    def start_tasks(self) -> Callable[[], pb.ListTasksResponse]:
        """Request all tasks without waiting; call the returned function to get them."""
        return self._connection.start(LIST_TASKS, pb.ListTasksRequest())

    def get_all(self, ids: Iterable[str]) -> list[pb.Container]:
        """Return the stored container records; missing containers are left out."""
        answers = self._connection.ask_all(GET, (pb.GetContainerRequest(id=i) for i in ids))
        return [answer.container for answer in answers if answer is not None]

    def update_extensions(self, key: str, values: Iterable[tuple[str, Any]]) -> list[pb.Container]:
        """Replace one extension of several records, and nothing else. The change is on disk when this returns.

        All requests are sent at once, to save round trips; containerd processes them one after the other.

        The mask must name exactly that extension: with no mask, or with bare ``extensions``, containerd
        replaces the whole record or map by what the request holds. The Any is built by hand, since Pack() puts
        ``type.googleapis.com/`` before the type URL, which containerd stores and then cannot read.

        Args:
            key: key of the extension.
            values: container ids with the new value of the extension.

        Returns:
            The whole records as containerd wrote them; missing containers are left out.
        """
        answers = self._connection.call_all(UPDATE, [update_extension(key, *value) for value in values])
        return [answer.container for answer in answers if answer is not None]


def update_extension(key: str, container_id: str, value: Any) -> pb.UpdateContainerRequest:
    """Return the request that replaces one extension of one record."""
    record = pb.Container(id=container_id, extensions={key: value})
    return pb.UpdateContainerRequest(container=record, update_mask=FieldMask(paths=[f"extensions.{key}"]))
