"""Client for the part of the Container Runtime Interface (CRI) that this project uses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from google.protobuf.message import Message

from nodeupgrade.errors import Unimplemented
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.connection import Connection, UnaryMethod

A = TypeVar("A", bound=Message)


class CriVersion(StrEnum):
    """Versions of the CRI, newest first. Their messages are the same; only the name of the service differs."""

    V1 = "v1"
    V1ALPHA2 = "v1alpha2"


@dataclass(eq=False, slots=True)
class CriClient:
    """Calls a runtime through the newest CRI version that it serves."""

    connection: Connection  # to the runtime's socket
    _served: tuple[CriVersion, ...] = ()

    def served(self) -> tuple[CriVersion, ...]:
        """Return the CRI versions that the runtime serves, newest first. Cached.

        Raises:
            Transient: the runtime does not answer.
            Unimplemented: the runtime serves no CRI version.
        """
        if not self._served:
            served = tuple(version for version in CriVersion if self._serves(version))
            if not served:
                raise Unimplemented("cannot ask the runtime because it serves no CRI; is its CRI plugin disabled?")
            self._served = served
        return self._served

    def version(self) -> pb.VersionResponse:
        """Return name and version of the runtime."""
        return self.connection.call(self._method("Version", pb.VersionResponse), pb.VersionRequest())

    def cgroup_driver(self) -> str | None:
        """Return the cgroup driver that the runtime reports to kubelets; ``None`` if it reports none (containerd 1)."""
        method = self._method("RuntimeConfig", pb.RuntimeConfigResponse)
        try:
            answer = self.connection.call(method, pb.RuntimeConfigRequest())
        except Unimplemented:
            return None
        return pb.CgroupDriver.Name(answer.linux.cgroup_driver).lower() if answer.HasField("linux") else None

    def image_filesystem(self) -> str | None:
        """Return the directory of images whose filesystem kubelets watch; ``None`` if none is reported.

        Kubelets use the first of several: containerd 2 reports one for each snapshotter.
        """
        method = UnaryMethod(f"/runtime.{self.served()[0]}.ImageService/ImageFsInfo", pb.ImageFsInfoResponse)
        try:
            answer = self.connection.call(method, pb.ImageFsInfoRequest())
        except Unimplemented:
            return None
        return next((each.fs_id.mountpoint for each in answer.image_filesystems), "") or None

    def status_info(self) -> dict[str, str]:
        """Return the runtime's verbose status: JSON texts by topic, whose format the CRI does not specify."""
        method = self._method("Status", pb.StatusResponse)
        return dict(self.connection.call(method, pb.StatusRequest(verbose=True)).info)

    def start_containers(self, *, timeout: float | None = None) -> Callable[[], pb.ListContainersResponse]:
        """Request all containers, running or not, without waiting; call the returned function to get them."""
        method = self._method("ListContainers", pb.ListContainersResponse)
        return self.connection.start(method, pb.ListContainersRequest(), timeout=timeout)

    def start_sandboxes(self) -> Callable[[], pb.ListPodSandboxResponse]:
        """Request all pod sandboxes, ready or not, without waiting; call the returned function to get them."""
        method = self._method("ListPodSandbox", pb.ListPodSandboxResponse)
        return self.connection.start(method, pb.ListPodSandboxRequest())

    def container_statuses(self, ids: Iterable[str], *, verbose: bool = False) -> dict[str, pb.ContainerStatusResponse]:
        """Return statuses by container id. Containers that are gone are left out."""
        requests = {i: pb.ContainerStatusRequest(container_id=i, verbose=verbose) for i in ids}
        return self._each(self._method("ContainerStatus", pb.ContainerStatusResponse), requests)

    def sandbox_statuses(self, ids: Iterable[str], *, verbose: bool = False) -> dict[str, pb.PodSandboxStatusResponse]:
        """Return statuses by sandbox id. Sandboxes that are gone are left out."""
        requests = {i: pb.PodSandboxStatusRequest(pod_sandbox_id=i, verbose=verbose) for i in ids}
        return self._each(self._method("PodSandboxStatus", pb.PodSandboxStatusResponse), requests)

    def forget_served(self) -> None:
        """Forget the CRI versions: a restarted runtime may serve others."""
        self._served = ()

    def _each(self, method: UnaryMethod[A], requests: Mapping[str, Message]) -> dict[str, A]:
        answers = self.connection.ask_all(method, requests.values())
        return {i: answer for i, answer in zip(requests, answers, strict=True) if answer is not None}

    def _serves(self, version: CriVersion) -> bool:
        try:
            self.connection.call(_method(version, "Version", pb.VersionResponse), pb.VersionRequest())
        except Unimplemented:
            return False
        return True

    def _method(self, name: str, answer: type[A]) -> UnaryMethod[A]:
        return _method(self.served()[0], name, answer)


def _method(version: CriVersion, name: str, answer: type[A]) -> UnaryMethod[A]:
    return UnaryMethod(f"/runtime.{version}.RuntimeService/{name}", answer)
