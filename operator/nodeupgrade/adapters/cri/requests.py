"""Reads the requests of the CRI methods that the shield judges."""

import re
from typing import assert_never

from google.protobuf.message import DecodeError

from nodeupgrade.adapters.cri._pb import runtime_pb2 as pb
from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.domain.node.shield import Method, RuntimeCall

PATH = re.compile(r"/runtime\.(?:v1|v1alpha2)\.(RuntimeService|ImageService)/(\w+)")
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


def guarded(path: str) -> Method | None:
    """Return the judged method that a path on the wire names; ``None`` if it names any other."""
    found = PATH.fullmatch(path)
    return METHODS.get(found[2]) if found is not None and found[1] == "RuntimeService" else None


def read(method: Method, request: bytes) -> RuntimeCall:
    """Read a request.

    Raises:
        UnreadableRequest: it cannot be decoded.
    """
    try:
        return _read(method, request)
    except (DecodeError, UnicodeDecodeError) as error:
        raise UnreadableRequest(f"cannot read a request for {method}: {error}") from error


def _read(method: Method, request: bytes) -> RuntimeCall:
    match method:
        case Method.STOP_CONTAINER:
            return _of_container(method, pb.StopContainerRequest.FromString(request).container_id)
        case Method.REMOVE_CONTAINER:
            return _of_container(method, pb.RemoveContainerRequest.FromString(request).container_id)
        case Method.STOP_POD_SANDBOX:
            return _of_sandbox(method, pb.StopPodSandboxRequest.FromString(request).pod_sandbox_id)
        case Method.REMOVE_POD_SANDBOX:
            return _of_sandbox(method, pb.RemovePodSandboxRequest.FromString(request).pod_sandbox_id)
        case Method.RUN_POD_SANDBOX:
            made = pb.RunPodSandboxRequest.FromString(request).config.metadata
            return RuntimeCall(
                method=method, pod=PodRef(namespace=made.namespace, name=made.name, uid=PodUid(made.uid))
            )
        case Method.CREATE_CONTAINER:
            return _creation(pb.CreateContainerRequest.FromString(request))
        case Method.UPDATE_CONTAINER_RESOURCES:
            return _update(pb.UpdateContainerResourcesRequest.FromString(request))
        case Method.EXEC_SYNC:
            executed = pb.ExecSyncRequest.FromString(request)
            return RuntimeCall(method=method, container=ContainerId(executed.container_id), command=tuple(executed.cmd))
        case never:
            assert_never(never)


def _of_container(method: Method, container: str) -> RuntimeCall:
    return RuntimeCall(method=method, container=ContainerId(container))


def _of_sandbox(method: Method, sandbox: str) -> RuntimeCall:
    return RuntimeCall(method=method, sandbox=SandboxId(sandbox))


def _creation(request: pb.CreateContainerRequest) -> RuntimeCall:
    return RuntimeCall(
        method=Method.CREATE_CONTAINER,
        sandbox=SandboxId(request.pod_sandbox_id),
        name=request.config.metadata.name,
        mounts=tuple(mount.host_path for mount in request.config.mounts),
    )


def _update(request: pb.UpdateContainerResourcesRequest) -> RuntimeCall:
    unified = request.linux.unified.get(MEMORY_MAX, "")
    limits = (request.linux.memory_limit_in_bytes, int(unified) if unified.isdecimal() else 0)
    return RuntimeCall(
        method=Method.UPDATE_CONTAINER_RESOURCES,
        container=ContainerId(request.container_id),
        memory=min((limit for limit in limits if limit > 0), default=0),
    )
