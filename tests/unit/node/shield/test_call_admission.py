"""Tests for the shield's verdict on each call."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import grpc
import pytest

from nodeupgrade.api.values import SandboxId
from nodeupgrade.cluster.owner_changes import ContainerSpec, Evidence, Planned
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from nodeupgrade.node.shield.call_admission import CriCallJudge
from nodeupgrade.node.shield.harmful_calls import Method, Shielded
from nodeupgrade.node.shield.shield import RefusedCall
from tests.builders.guarded_calls import PEER, STOP, STOP_WEB, World
from tests.builders.shielded import EDITED, WEB, container_of, shielded_plan

CREATE = "/runtime.v1.RuntimeService/CreateContainer"


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
    def look() -> Evidence:
        match how:
            case "lowered":
                world.raised = False
            case "switched off":
                guard.switch_off()
            case _:
                world.alive = False
        return Evidence()

    world.ports = replace(world.ports, owners=look)
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


async def test_a_path_on_a_file_server_that_does_not_answer_holds_up_no_other_call(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever creates a pod may name such a path like the socket; the kubelet's other calls go on, and so does it."""
    answers, path = threading.Event(), tmp_path / "nfs" / "runtime.sock"
    monkeypatch.setattr(os.path, "realpath", lambda _path: answers.wait(20) and str(path))
    config = pb.ContainerConfig(mounts=[pb.Mount(host_path=f"/{number}{path}") for number in range(500)])
    request = pb.CreateContainerRequest(pod_sandbox_id="new", config=config).SerializeToString()
    guard, threads = world.guard(), threading.active_count()
    try:
        async with asyncio.timeout(10):
            creation = asyncio.ensure_future(guard.judge(CREATE, request, PEER))
            await asyncio.sleep(0)
            assert await guard.judge(STOP, STOP_WEB, PEER) is not None
            assert not creation.done()
            assert await creation is None
        assert threading.active_count() <= threads + 1, "the kernel holds them until the server answers"
    finally:
        answers.set()


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


@pytest.mark.parametrize("port", ["owners", "lives", "shuts_down"])
async def test_a_call_that_cannot_be_judged_is_refused_and_written_down(world: World, port: str) -> None:
    """Otherwise a run would end well although a kubelet has wanted to end what ran, and then may."""

    def fail(*_given: object) -> NoReturn:
        raise RuntimeError("something odd")

    changed: dict[str, Any] = {port: fail}
    world.ports = replace(world.ports, **changed)

    refusal = await world.guard().judge(STOP, STOP_WEB, PEER)

    assert refusal is not None
    assert "something odd" in refusal.details
    assert [(call.method, call.instance) for call in world.refused] == [("StopContainer", container_of(WEB))]
    assert world.waited in ([1, 0], [])


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
    ports = replace(world.ports, record_waiting=lambda _number: known.append(len(world.refused)))

    await CriCallJudge(lambda: Shielded.of(shielded_plan()), ports, patience=0).judge(STOP, STOP_WEB, PEER)

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

    guard = CriCallJudge(lambda: Shielded.of(plan), replace(world.ports, list_containers=listed), patience=0)
    assert await guard.judge(STOP, STOP_WEB, PEER) is not None
    ended.append(replace(web, process=None, state=ContainerState.EXITED, exit_code=1))
    assert await guard.judge(STOP, STOP_WEB, PEER) is None


async def test_a_kubelet_that_acts_on_what_its_owner_has_taken_back_is_put_off_once(world: World) -> None:
    """It does not want that any more once it has learned of it; a second time, that is not why it wants to."""
    spec = ContainerSpec(pod=WEB.uid, name="c", image="a", resources="b")
    plan = replace(shielded_plan(), owned=Planned(containers=(spec,)))
    ports = replace(world.ports, owners=lambda: Evidence(specs=(spec,)))
    guard = CriCallJudge(lambda: Shielded.of(plan), ports, patience=0)

    first, second = [await guard.judge(STOP, STOP_WEB, PEER) for _ in range(2)]

    assert first is not None
    assert first.code is grpc.StatusCode.UNAVAILABLE
    assert second is not None
    assert second.code is grpc.StatusCode.FAILED_PRECONDITION
    assert len(world.refused) == 1
