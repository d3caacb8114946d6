"""Take a snapshot of a node: from the CRI, from what the runtime stores, and from the kernel."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from e2e.lab.errors import LabError
from e2e.lab.oracle.protobuf_wire import Message, bool_field, message_field, string_field
from e2e.lab.oracle.snapshot import ContainerInstance, NodeSnapshot, SandboxInstance
from e2e.lab.process import parent, patience, start_time

_HASH = "io.kubernetes.container.hash"
_STORED = "io.cri-containerd.container.metadata"
_CONTAINER_STATES = ("CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN")
_REMOVAL_SECONDS = 5.0
_SANDBOX_STATES = ("SANDBOX_READY", "SANDBOX_NOTREADY")


@dataclass(frozen=True, slots=True)
class _Runtime:
    channel: grpc.Channel

    def ask(self, method: str, request: bytes = b"", timeout: float = 10) -> Message:
        call = self.channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        answer: bytes = call(request, timeout=timeout * patience(), metadata=(("containerd-namespace", "k8s.io"),))
        return Message.parse(answer)

    def cri(self, method: str, request: bytes = b"", timeout: float = 10) -> Message:
        return self.ask(f"/runtime.v1.RuntimeService/{method}", request, timeout)


def _open(socket: Path) -> grpc.Channel:
    if len(str(socket)) > 107:
        raise LabError(f"cannot connect to {socket} because a socket's path has at most 107 characters")
    return grpc.insecure_channel(f"unix:{socket}", options=[("grpc.max_receive_message_length", -1)])


def runtime_ready(socket: Path) -> bool:
    """Report whether the CRI at ``socket`` says that its runtime is ready (RuntimeReady; the network may not be)."""
    if not socket.exists():
        return False
    try:
        with _open(socket) as channel:
            status = _Runtime(channel).cri("Status", timeout=3).message(1)
    except grpc.RpcError:
        return False
    return any(entry.text(1) == "RuntimeReady" and entry.number(2) for entry in status.messages(1))


def remove_image(socket: Path, name: str) -> None:
    """Have the CRI take the name of an image away; containers of it run on.

    Raises:
        LabError: the runtime refuses.
    """
    try:
        with _open(socket) as channel:
            image = message_field(1, string_field(1, name))
            _Runtime(channel).ask("/runtime.v1.ImageService/RemoveImage", image)
    except grpc.RpcError as error:
        raise LabError(f"cannot remove image {name} because the runtime says: {error}") from error


def read(node: str, socket: Path, root: Path, hashes: Callable[[], Mapping[str, str]] | None = None) -> NodeSnapshot:
    """Take a snapshot.

    Args:
        node: name to put into it.
        socket: the runtime's socket as seen from this process.
        root: the node's root as seen from this process; processes are looked up in its ``/proc``.
        hashes: returns container id → stored hash; by default, from containerd's metadata store.

    Raises:
        LabError: if the runtime does not answer.
    """
    try:
        with _open(socket) as channel:
            runtime = _Runtime(channel)
            sandboxes = [_sandbox(answer, root) for answer in _each(runtime, "ListPodSandbox", "PodSandboxStatus")]
            served = list(_each(runtime, "ListContainers", "ContainerStatus"))
            stored = _stored_hashes(runtime) if hashes is None else hashes()  # last: also of what was just created
            containers = [_container(answer, stored, root) for answer in served]
    except grpc.RpcError as error:
        raise LabError(f"cannot read the containers of node {node} because its runtime says: {error}") from error
    return NodeSnapshot(
        node=node,
        containers=tuple(sorted(containers, key=lambda entry: entry.id)),
        sandboxes=tuple(sorted(sandboxes, key=lambda entry: entry.id)),
    )


def _each(runtime: _Runtime, listing: str, status: str) -> Iterator[Message]:
    """Request the verbose status of everything listed, without what is removed meanwhile."""
    for listed in runtime.cri(listing).messages(1):
        if (answer := _status(runtime, listing, status, listed.text(1))) is not None:
            yield answer


def _status(runtime: _Runtime, listing: str, status: str, identity: str) -> Message | None:
    """Request a status; a runtime that is removing something may answer with any error until it is gone."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        try:
            return runtime.cri(status, string_field(1, identity) + bool_field(2))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            if time.monotonic() > deadline:
                raise
        if all(listed.text(1) != identity for listed in runtime.cri(listing).messages(1)):
            return None
        time.sleep(0.1)


def _stored_hashes(runtime: _Runtime) -> dict[str, str]:
    """Return container id → hash from containerd's metadata store, which survives its restart."""
    answer = runtime.ask("/containerd.services.containers.v1.Containers/List")
    found = {}
    for container in answer.messages(1):
        for extension in container.messages(10):
            if extension.text(1) == _STORED:
                document = json.loads(extension.message(2).data(2))
                found[container.text(1)] = document["Metadata"]["Config"]["annotations"].get(_HASH, "")
    return found


def hashes_in(storage: Path) -> dict[str, str]:
    """Return container id → hash from the files that CRI-O keeps, which survive its restart."""
    found = {}
    for file in storage.glob("*/userdata/config.json"):
        annotations = json.loads(file.read_bytes())["annotations"]
        inner = json.loads(annotations.get("io.kubernetes.cri-o.Annotations", "{}"))
        found[file.parent.parent.name] = inner.get(_HASH, "")
    return found


def _container(answer: Message, stored: Mapping[str, str], root: Path) -> ContainerInstance:
    status, labels = answer.message(1), answer.message(1).texts(12)
    identity, pid = status.text(1), _pid(answer)
    return ContainerInstance(
        id=identity,
        name=status.message(2).text(1),
        pod=f"{labels.get('io.kubernetes.pod.namespace', '')}/{labels.get('io.kubernetes.pod.name', '')}",
        pod_uid=labels.get("io.kubernetes.pod.uid", ""),
        sandbox_id=_info(answer).get("sandboxID", ""),
        state=_CONTAINER_STATES[status.number(3)],
        attempt=status.message(2).number(2),
        created_at=status.number(4),
        started_at=status.number(5),
        finished_at=status.number(6),
        exit_code=status.number(7),
        pid=pid,
        process_start=start_time(pid, root) if pid else None,
        monitor_pid=parent(pid, root) if pid else None,
        stored_hash=stored.get(identity, ""),
        served_hash=status.texts(13).get(_HASH, ""),
    )


def _sandbox(answer: Message, root: Path) -> SandboxInstance:
    status = answer.message(1)
    metadata, pid = status.message(2), _pid(answer)
    return SandboxInstance(
        id=status.text(1),
        name=metadata.text(1),
        pod=f"{metadata.text(3)}/{metadata.text(1)}",
        pod_uid=metadata.text(2),
        state=_SANDBOX_STATES[status.number(3)],
        attempt=metadata.number(4),
        created_at=status.number(4),
        pid=pid,
        process_start=start_time(pid, root) if pid else None,
        monitor_pid=parent(pid, root) if pid else None,
        address=status.message(5).text(1),
    )


def _info(answer: Message) -> dict[str, Any]:
    """Return the runtime's verbose information, a JSON document; empty if there is none."""
    found: dict[str, Any] = json.loads(answer.texts(2).get("info", "{}"))
    return found


def _pid(answer: Message) -> int:
    return int(_info(answer).get("pid", 0))
