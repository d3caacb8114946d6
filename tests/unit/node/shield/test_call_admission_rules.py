"""Tests for calls that follow a restart rule of a Pod."""

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.cluster.pod_restart_rules import ExitRule, RuledContainer
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from nodeupgrade.node.shield.call_admission import CriCallJudge
from nodeupgrade.node.shield.harmful_calls import Shielded
from nodeupgrade.node.shield.shield import RuleRestart
from tests.builders.guarded_calls import PEER, STOP, STOP_WEB, TRAIN, World
from tests.builders.shielded import WEB, container, container_of, shielded_plan

REMOVE = "/runtime.v1.RuntimeService/RemoveContainer"

PROCESS = Process(pid=30, started=30)
ENDED = replace(
    container(WEB, 0), id=TRAIN, name="train", state=ContainerState.EXITED, exit_code=88, process=None
)  # fmt: skip


def ruled_plan(*, whole_pod: bool = True) -> RunPlan:
    """The plan, whose pod ``web`` has a second container with a rule for exit code 88."""
    plan = shielded_plan()
    runs = replace(ENDED, state=ContainerState.RUNNING, exit_code=None, process=PROCESS)
    baseline = replace(plan.baseline, containers=(*plan.baseline.containers, runs))
    rule = ExitRule(codes=(88,), whole_pod=whole_pod)
    return replace(plan, baseline=baseline, ruled=(RuledContainer(pod=WEB.uid, name="train", rules=(rule,)),))


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(PurePosixPath(tmp_path.resolve() / "runtime.sock"))
    found.listing, found.ended = (ENDED,), frozenset({PROCESS})
    return found


def guard(world: World, plan: RunPlan | None = None) -> CriCallJudge:
    return CriCallJudge(Shielded.of(plan or ruled_plan()), world.ports, patience=0)


async def test_what_a_rule_restarts_is_let_through_and_written_down_with_the_end_that_explains_it(world: World) -> None:
    remove = pb.RemoveContainerRequest(container_id=TRAIN).SerializeToString()

    assert await guard(world).judge(STOP, STOP_WEB, PEER) is None
    assert await guard(world).judge(REMOVE, remove, PEER) is None

    at = "2026-01-02T03:04:05.678Z"
    assert world.by_rule == [
        RuleRestart(at=at, instance=container_of(WEB), label="a/web/c", ended=TRAIN, exit_code=88),
        RuleRestart(at=at, instance=TRAIN, label="a/web/train", ended=TRAIN, exit_code=88),
    ]
    assert world.refused == []


@pytest.mark.parametrize(
    "listing",
    [
        (),
        (replace(ENDED, exit_code=1),),
        (replace(ENDED, exit_code=None),),
        (replace(ENDED, exit_code=137),),
        (replace(ENDED, id=ContainerId("another")),),
        (replace(ENDED, state=ContainerState.RUNNING, exit_code=None),),
        (ENDED, replace(ENDED, id=ContainerId("next"), created_at=9, state=ContainerState.RUNNING, exit_code=None)),
    ],
    ids=["silence", "another code", "no code", "killed", "not of the baseline", "runs", "runs again"],
)
async def test_anything_else_is_refused(world: World, listing: tuple[ContainerInstance, ...]) -> None:
    world.listing = listing

    assert await guard(world).judge(STOP, STOP_WEB, PEER) is not None
    assert world.by_rule == []


async def test_the_runtime_is_not_believed_against_the_kernel(world: World) -> None:
    world.ended = frozenset()
    assert await guard(world).judge(STOP, STOP_WEB, PEER) is not None


async def test_a_rule_about_one_container_excuses_no_other(world: World) -> None:
    assert await guard(world, ruled_plan(whole_pod=False)).judge(STOP, STOP_WEB, PEER) is not None


async def test_nobody_but_the_kubelet_follows_rules(world: World) -> None:
    assert await guard(world).judge(STOP, STOP_WEB, "unix-abstract:7") is not None


async def test_what_cannot_be_written_down_is_refused(world: World) -> None:
    world.broken = True
    assert await guard(world).judge(STOP, STOP_WEB, PEER) is not None
