"""What the shield answers to the calls of a kubelet."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import grpc
import pytest

from nodeupgrade.api.values import AwakeTime, BootIdentity, ContainerId, MonotonicSeconds, PodRef, PodUid, SandboxId
from nodeupgrade.node.host.processes.memory import memory_in_use
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from nodeupgrade.node.shield.call_judge import CallGuard, Surroundings
from nodeupgrade.node.shield.call_requests import UnreadableRequest, guarded, is_unary, read
from nodeupgrade.node.shield.rules import Method, RefusedCall, RuleRestart, RuntimeCall, Shielded
from tests.unit.domain.node.shielded import AS_FOUND, EDITED, WEB, container_of, shielded_plan

PEER = "unix-abstract:kubelet"
STOP = "/runtime.v1.RuntimeService/StopContainer"
CREATE = "/runtime.v1.RuntimeService/CreateContainer"
STOP_WEB = pb.StopContainerRequest(container_id=container_of(WEB)).SerializeToString()


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(3612.5)

    def awake(self) -> AwakeTime:
        return AwakeTime(12.5)

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def boot(self) -> BootIdentity:
        raise NotImplementedError


class World:
    """What a guard sees, for tests to change."""

    def __init__(self, socket: PurePosixPath) -> None:
        self.raised, self.alive, self.digest = True, True, AS_FOUND
        self.refused: list[RefusedCall] = []
        self.by_rule: list[RuleRestart] = []
        self.listing: tuple[ContainerInstance, ...] = ()
        self.ended: frozenset[Process] = frozenset()
        self.waited: list[int] = []
        self.asked = 0
        self.deleted_after: int | None = None
        self.broken = False
        self.shutting_down = False
        self.around = Surroundings(
            raised=lambda: self.raised, socket=socket, lives=lambda process: self.alive and process not in self.ended,
            listed=self.listed,
            memory=lambda _container: 100, deleted=self.deleted, digest=lambda _path: self.digest,
            record=self.record, record_rule=self.record_rule, waiting=self.waited.append, clock=Clock(),
            shuts_down=self.shuts_down, caller=lambda peer: "" if peer == PEER else "crictl (process 7)",
        )  # fmt: skip

    async def shuts_down(self) -> bool:
        return self.shutting_down

    async def listed(self, _service: str, _sandbox: SandboxId) -> tuple[ContainerInstance, ...]:
        return self.listing

    def record_rule(self, restart: RuleRestart) -> None:
        if self.broken:
            raise OSError("no space")
        self.by_rule.append(restart)

    def deleted(self) -> set[PodUid]:
        self.asked += 1
        return {WEB.uid} if self.deleted_after is not None and self.asked > self.deleted_after else set()

    def record(self, call: RefusedCall) -> None:
        if self.broken:
            raise OSError("no space")
        self.refused.append(call)

    def guard(self, patience: float = 0.0) -> CallGuard:
        return CallGuard(Shielded.of(shielded_plan()), self.around, patience=patience)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(PurePosixPath(tmp_path.resolve() / "runtime.sock"))


async def test_a_call_that_would_harm_is_refused_and_written_down(world: World) -> None:
    refusal = await world.guard().judge(STOP, STOP_WEB, PEER)

    assert refusal is not None
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    plan = shielded_plan()
    for word in ("nodeupgrade", plan.run_id, plan.node, "refused to stop a/web/c"):
        assert word in refusal.details
    assert world.refused == [
        RefusedCall(at="2026-01-02T03:04:05.678Z", monotonic=12.5, method="StopContainer",
                    instance=container_of(WEB), label="a/web/c", wanted="stop")
    ]  # fmt: skip


async def test_a_refusal_stands_even_if_it_cannot_be_written_down(world: World) -> None:
    world.broken = True
    assert await world.guard().judge(STOP, STOP_WEB, PEER) is not None


async def test_what_ended_by_itself_may_be_cleaned_up(world: World) -> None:
    world.alive = False
    assert await world.guard().judge(STOP, STOP_WEB, PEER) is None
    assert world.asked == 0


async def test_the_agent_gets_time_to_answer(world: World) -> None:
    world.deleted_after = 2
    assert await world.guard(patience=60).judge(STOP, STOP_WEB, PEER) is None
    assert world.refused == []


async def test_a_manifest_that_was_edited_excuses_at_once(world: World) -> None:
    world.digest = EDITED
    assert await world.guard(patience=60).judge(STOP, STOP_WEB, PEER) is None


@pytest.mark.parametrize("how", ["lowered", "switched off", "ended"])
async def test_whoever_waits_for_an_excuse_is_let_through_once_it_is_not_needed(world: World, how: str) -> None:
    def look() -> set[PodUid]:
        match how:
            case "lowered":
                world.raised = False
            case "switched off":
                guard.switch_off()
            case _:
                world.alive = False
        return set()

    world.around = replace(world.around, deleted=look)
    guard = world.guard(patience=60)
    assert await guard.judge(STOP, STOP_WEB, PEER) is None
    assert world.refused == []


async def test_nothing_is_judged_while_the_shield_is_not_raised(world: World) -> None:
    world.raised = False
    assert await world.guard().judge(STOP, STOP_WEB, PEER) is None
    world.raised = True
    guard = world.guard()
    guard.switch_off()
    assert await guard.judge(STOP, STOP_WEB, PEER) is None


@pytest.mark.parametrize("method", Method)
async def test_what_cannot_be_read_is_refused(world: World, method: Method) -> None:
    refusal = await world.guard().judge(f"/runtime.v1.RuntimeService/{method}", b"\xff\xff\xff", PEER)
    assert refusal is not None
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert [call.method for call in world.refused] == [method]


async def test_a_container_may_not_hold_the_socket(world: World, tmp_path: Path) -> None:
    """By whatever path it names the socket; a directory is no problem, since names in it change with the world."""
    (tmp_path / "link").symlink_to(tmp_path)
    for path, code in (
        (tmp_path / "runtime.sock", grpc.StatusCode.UNAVAILABLE),
        (tmp_path / "link" / "runtime.sock", grpc.StatusCode.UNAVAILABLE),
        (tmp_path, None),
        (tmp_path / "other.sock", None),
        (tmp_path / "sub" / "runtime.sock", None),
    ):
        request = pb.CreateContainerRequest(
            pod_sandbox_id="new", config=pb.ContainerConfig(mounts=[pb.Mount(host_path=str(path))])
        )
        refusal = await world.guard().judge(CREATE, request.SerializeToString(), PEER)
        assert (refusal and refusal.code) == code, path
    assert world.refused == [], "the kubelet tries again, and the run goes on"


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
        assert read(expected.method, request.SerializeToString()) == expected
        with pytest.raises(UnreadableRequest):
            read(expected.method, b"\x0a\x05x")


@pytest.mark.parametrize(
    ("memory", "unified", "limit"),
    [(0, {}, 0), (0, {"memory.max": "max"}, 0), (7, {"memory.max": "max"}, 7), (7, {}, 7)],
)
def test_a_limit_may_be_set_in_two_ways(memory: int, unified: dict[str, str], limit: int) -> None:
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=memory, unified=unified)
    request = pb.UpdateContainerResourcesRequest(container_id="c1", linux=resources).SerializeToString()
    assert read(Method.UPDATE_CONTAINER_RESOURCES, request).memory == limit


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
def test_methods_are_known_by_their_path(version: str) -> None:
    for method in Method:
        path = f"/runtime.{version}.RuntimeService/{method}"
        assert guarded(path) is method
        assert is_unary(path), "or its request would never be complete"
    assert guarded(f"/runtime.{version}.RuntimeService/StartContainer") is None
    assert guarded(f"/runtime.{version}.ImageService/StopContainer") is None
    assert guarded("/containerd.services.tasks.v1.Tasks/Kill") is None
    assert is_unary(f"/runtime.{version}.ImageService/PullImage")
    assert not is_unary(f"/runtime.{version}.RuntimeService/GetContainerEvents")
    assert not is_unary("/containerd.services.content.v1.Content/Write")


@pytest.mark.parametrize(
    ("groups", "group", "files", "expected"),
    [
        ("0::/pods/cri-c1.scope/init\n", "pods/cri-c1.scope",
         {"memory.current": "900\n", "memory.stat": "anon 1\ninactive_file 200\n"}, 700),
        ("5:cpu,memory:/pods/c1\n0::/\n", "memory/pods/c1",
         {"memory.usage_in_bytes": "900\n", "memory.stat": "inactive_file 1\ntotal_inactive_file 300\n"}, 600),
        ("0::/elsewhere\n", "elsewhere", {"memory.current": "900\n", "memory.stat": "anon 1\n"}, None),
        ("0::/pods/c1\n", "pods/c1", {}, None),
        ("", "pods/c1", {}, None),
    ],
)  # fmt: skip
def test_memory_in_use_is_the_working_set(
    tmp_path: Path, groups: str, group: str, files: dict[str, str], expected: int | None
) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(groups)
    (tmp_path / "cgroups" / group).mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "cgroups" / group / name).write_text(text)
    assert memory_in_use(7, "c1", tmp_path / "proc", tmp_path / "cgroups") == expected
    assert memory_in_use(8, "c1", tmp_path / "proc", tmp_path / "cgroups") is None


async def test_calls_that_wait_are_counted_until_they_are_refused_or_gone(world: World) -> None:
    guard = world.guard(patience=60)
    calls = [asyncio.ensure_future(guard.judge(STOP, STOP_WEB, PEER)) for _ in range(2)]
    await asyncio.sleep(0)  # each of them runs until it has to wait
    calls[0].cancel()
    await asyncio.gather(calls[0], return_exceptions=True)
    world.alive = False
    await calls[1]

    assert world.waited == [1, 2, 1, 0]


async def test_a_refusal_is_written_down_before_the_call_counts_as_over(world: World) -> None:
    known: list[int] = []
    around = replace(world.around, waiting=lambda _number: known.append(len(world.refused)))

    await CallGuard(Shielded.of(shielded_plan()), around, patience=0).judge(STOP, STOP_WEB, PEER)

    assert known == [0, 1]


async def test_a_node_that_shuts_down_ends_its_pods(world: World) -> None:
    world.shutting_down = True
    assert await world.guard(patience=60).judge(STOP, STOP_WEB, PEER) is None
    assert world.refused == []


async def test_a_caller_other_than_the_kubelet_is_named(world: World) -> None:
    assert await world.guard().judge(STOP, STOP_WEB, "unix-abstract:7") is not None
    assert [call.caller for call in world.refused] == ["crictl (process 7)"]
    assert [world.guard().awaited(peer) for peer in (PEER, "unix-abstract:7")] == [True, False]


async def test_a_refusal_that_cannot_be_written_down_waits_for_ever(world: World) -> None:
    world.broken = True
    guard = world.guard()
    assert await guard.judge(STOP, STOP_WEB, PEER) is not None
    assert await guard.judge(f"/runtime.v1.RuntimeService/{Method.STOP_CONTAINER}", b"\xff", PEER) is not None
    assert world.waited[-1] == 2


async def test_what_has_ended_in_a_shared_process_the_runtime_knows(world: World) -> None:
    plan = shielded_plan()
    [web, *others] = plan.baseline.containers
    pause = plan.baseline.sandboxes[0].process
    plan = replace(plan, baseline=replace(plan.baseline, containers=(replace(web, process=pause), *others)))
    ended: list[ContainerInstance] = []

    async def listed(_service: str, _sandbox: SandboxId) -> tuple[ContainerInstance, ...]:
        return tuple(ended)

    guard = CallGuard(Shielded.of(plan), replace(world.around, listed=listed), patience=0)
    assert await guard.judge(STOP, STOP_WEB, PEER) is not None
    ended.append(replace(web, process=None, state=ContainerState.EXITED, exit_code=1))
    assert await guard.judge(STOP, STOP_WEB, PEER) is None
