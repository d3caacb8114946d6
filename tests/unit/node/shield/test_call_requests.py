"""Tests for reading CRI requests."""

import pytest

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.shield.call_requests import UnreadableRequest, is_unary, judged_method, parse_request
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall


def test_each_request_is_read() -> None:
    metadata = pb.PodSandboxMetadata(namespace="n", name="p", uid="u", attempt=3)
    container, sandbox = ContainerId("c1"), SandboxId("s1")
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=500, unified={"memory.max": "300", "pids.max": "1"})
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), mounts=[pb.Mount(host_path="/a")])
    for request, expected in (
        (pb.StopContainerRequest(container_id="c1"), RuntimeCall(method=Method.STOP_CONTAINER, container=container)),
        (pb.RemoveContainerRequest(container_id="c1"),
         RuntimeCall(method=Method.REMOVE_CONTAINER, container=container)),
        (pb.StopPodSandboxRequest(pod_sandbox_id="s1"), RuntimeCall(method=Method.STOP_POD_SANDBOX, sandbox=sandbox)),
        (pb.RemovePodSandboxRequest(pod_sandbox_id="s1"),
         RuntimeCall(method=Method.REMOVE_POD_SANDBOX, sandbox=sandbox)),
        (pb.RunPodSandboxRequest(config=pb.PodSandboxConfig(metadata=metadata)),
         RuntimeCall(method=Method.RUN_POD_SANDBOX, pod=PodRef(namespace="n", name="p", uid=PodUid("u")))),
        (pb.CreateContainerRequest(pod_sandbox_id="s1", config=config),
         RuntimeCall(method=Method.CREATE_CONTAINER, sandbox=sandbox, name="c", mounts=("/a",))),
        (pb.UpdateContainerResourcesRequest(container_id="c1", linux=resources),
         RuntimeCall(method=Method.UPDATE_CONTAINER_RESOURCES, container=container, memory=300)),
        (pb.ExecSyncRequest(container_id="c1", cmd=["a", "b"]),
         RuntimeCall(method=Method.EXEC_SYNC, container=container, command=("a", "b"))),
    ):  # fmt: skip
        assert parse_request(expected.method, request.SerializeToString()) == expected
        with pytest.raises(UnreadableRequest):
            parse_request(expected.method, b"\x0a\x05x")


@pytest.mark.parametrize(
    ("memory", "unified", "limit"),
    [(0, {}, 0), (0, {"memory.max": "max"}, 0), (7, {"memory.max": "max"}, 7), (7, {}, 7)],
)
def test_a_limit_may_be_set_in_two_ways(memory: int, unified: dict[str, str], limit: int) -> None:
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=memory, unified=unified)
    request = pb.UpdateContainerResourcesRequest(container_id="c1", linux=resources).SerializeToString()
    assert parse_request(Method.UPDATE_CONTAINER_RESOURCES, request).memory == limit


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
def test_methods_are_known_by_their_path(version: str) -> None:
    for method in Method:
        path = f"/runtime.{version}.RuntimeService/{method}"
        assert judged_method(path) is method
        assert is_unary(path), "or its request would never be complete"
    assert judged_method(f"/runtime.{version}.RuntimeService/StartContainer") is None
    assert judged_method(f"/runtime.{version}.ImageService/StopContainer") is None
    assert judged_method("/containerd.services.tasks.v1.Tasks/Kill") is None
    assert is_unary(f"/runtime.{version}.ImageService/PullImage")
    assert not is_unary(f"/runtime.{version}.RuntimeService/GetContainerEvents")
    assert not is_unary("/containerd.services.content.v1.Content/Write")
