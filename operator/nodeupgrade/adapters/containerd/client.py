"""The calls of containerd's own API that this project makes."""

from collections.abc import Callable, Iterable

from google.protobuf.any_pb2 import Any
from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask

from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.cri import Connection
from nodeupgrade.adapters.cri.connection import Method

NAMESPACE = (("containerd-namespace", "k8s.io"),)
"""Sent with every call: containerd keeps what Kubernetes runs apart from everything else."""

VERSION = Method("/containerd.services.version.v1.Version/Version", pb.VersionResponse)
GET = Method("/containerd.services.containers.v1.Containers/Get", pb.GetContainerResponse)
UPDATE = Method("/containerd.services.containers.v1.Containers/Update", pb.UpdateContainerResponse)
LIST_TASKS = Method("/containerd.services.tasks.v1.Tasks/List", pb.ListTasksResponse)


class ContainerdClient:
    """Asks containerd beside its CRI plugin.

    Args:
        connection: to containerd's socket, with NAMESPACE as its metadata.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def version(self) -> str:
        """Version of the running daemon, without a leading ``v``."""
        return self._connection.ask(VERSION, Empty()).version.removeprefix("v")

    def start_tasks(self) -> Callable[[], pb.ListTasksResponse]:
        """Ask for every task; calling what is returned gives them."""
        return self._connection.start(LIST_TASKS, pb.ListTasksRequest())

    def get_all(self, ids: Iterable[str]) -> list[pb.Container]:
        """Records as stored; those that are not there are left out."""
        answers = self._connection.ask_all(GET, (pb.GetContainerRequest(id=i) for i in ids))
        return [answer.container for answer in answers if answer is not None]

    def update_extensions(self, key: str, values: Iterable[tuple[str, Any]]) -> list[pb.Container]:
        """Replace one extension of several records and nothing else. Committed to disk when this returns.

        containerd answers each with the whole record as it has written it; one that is gone is left out.

        Sent all at once: containerd takes them one after the other, and nobody waits for the way there and back.

        The mask must name exactly that extension: without one, or with bare ``extensions``, containerd
        replaces the whole record or map by what the request holds. The Any is made by hand, since Pack() puts
        ``type.googleapis.com/`` before the type URL, which containerd stores and then cannot read.

        Args:
            key: the extension.
            values: container id and new value of the extension.
        """
        answers = self._connection.call_all(UPDATE, [update_extension(key, *value) for value in values])
        return [answer.container for answer in answers if answer is not None]


def update_extension(key: str, container_id: str, value: Any) -> pb.UpdateContainerRequest:
    """The request that replaces one extension of one record."""
    record = pb.Container(id=container_id, extensions={key: value})
    return pb.UpdateContainerRequest(container=record, update_mask=FieldMask(paths=[f"extensions.{key}"]))
