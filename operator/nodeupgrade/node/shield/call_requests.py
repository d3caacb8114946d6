"""Parses the requests of the CRI methods that the shield judges."""

import re
from typing import assert_never

from google.protobuf.message import DecodeError

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.messages import read
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall
from nodeupgrade.text import number

PATH = re.compile(r"/runtime\.(?:v1|v1alpha2)\.(RuntimeService|ImageService)/(\w+)", re.ASCII)
UNARY = frozenset({
    "Version", "Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus",
    "ListPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers",
    "ContainerStatus", "UpdateContainerResources", "ReopenContainerLog", "ExecSync", "Exec", "Attach",
    "PortForward", "ContainerStats", "ListContainerStats", "PodSandboxStats", "ListPodSandboxStats",
    "UpdateRuntimeConfig", "CheckpointContainer", "ListMetricDescriptors", "ListPodSandboxMetrics",
    "RuntimeConfig", "UpdatePodSandboxResources", "ListImages", "ImageStatus", "PullImage", "RemoveImage",
    "ImageFsInfo",
})  # fmt: skip
"""Methods of the CRI that are known to have one request and one answer. Any other may be a stream."""
METHODS = {method.value: method for method in Method}
MEMORY_MAX = "memory.max"


class UnreadableRequest(ValueError):
    """The request cannot be decoded."""


def is_unary(path: str) -> bool:
    """Report whether a path on the wire names a method of the CRI with one request and one answer."""
    found = PATH.fullmatch(path)
    return found is not None and found[2] in UNARY


def judged_method(path: str) -> Method | None:
    """Return the judged method that a path on the wire names; ``None`` if it names any other."""
    found = PATH.fullmatch(path)
    return METHODS.get(found[2]) if found is not None and found[1] == "RuntimeService" else None


def parse_request(method: Method, request: bytes) -> RuntimeCall:
    """Parse a request.

    Raises:
        UnreadableRequest: it cannot be decoded.
    """
    try:
        return _parse(method, request)
    except (DecodeError, UnicodeDecodeError) as error:
        raise UnreadableRequest(f"cannot read a request for {method}: {error}") from error


def _parse(method: Method, request: bytes) -> RuntimeCall:
    match method:
        case Method.STOP_CONTAINER:
            stopped = pb.StopContainerRequest.FromString(request)
            return RuntimeCall(method=method, container=ContainerId(stopped.container_id))
        case Method.REMOVE_CONTAINER:
            removed = pb.RemoveContainerRequest.FromString(request)
            return RuntimeCall(method=method, container=ContainerId(removed.container_id))
        case Method.STOP_POD_SANDBOX:
            ended = pb.StopPodSandboxRequest.FromString(request)
            return RuntimeCall(method=method, sandbox=SandboxId(ended.pod_sandbox_id))
        case Method.REMOVE_POD_SANDBOX:
            deleted = pb.RemovePodSandboxRequest.FromString(request)
            return RuntimeCall(method=method, sandbox=SandboxId(deleted.pod_sandbox_id))
        case Method.RUN_POD_SANDBOX:
            made = pb.RunPodSandboxRequest.FromString(request).config.metadata
            return RuntimeCall(
                method=method, pod=PodRef(namespace=made.namespace, name=made.name, uid=PodUid(made.uid))
            )
        case Method.CREATE_CONTAINER:
            created = pb.CreateContainerRequest.FromString(request)
            return RuntimeCall(
                method=method,
                sandbox=SandboxId(created.pod_sandbox_id),
                name=created.config.metadata.name,
                mounts=tuple(mount.host_path for mount in created.config.mounts),
            )
        case Method.UPDATE_CONTAINER_RESOURCES:
            updated = pb.UpdateContainerResourcesRequest.FromString(request)
            unified = updated.linux.unified.get(MEMORY_MAX, "")
            limits = (updated.linux.memory_limit_in_bytes, number(unified) or 0)
            return RuntimeCall(
                method=method,
                container=ContainerId(updated.container_id),
                memory=min((limit for limit in limits if limit > 0), default=0),
            )
        case Method.EXEC_SYNC:
            executed = read(pb.ExecSyncRequest, request)
            return RuntimeCall(method=method, container=ContainerId(executed.container_id), command=tuple(executed.cmd))
        case never:
            assert_never(never)
